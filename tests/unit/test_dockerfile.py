"""The images run as any user, such as those that OpenShift assigns, who is in no group but 0.

No image can be built here, so this reads the instructions. All that is written when an image runs
is below ``/tmp`` (pods have a root file system that is read-only), and all else is readable by
everybody, whatever the umask of the checkout was that the image was built from.
"""

import re
from dataclasses import dataclass, field
from itertools import chain

import pytest

from tests.support.images import dockerfile

IMAGES = ("operator", "spark")


@dataclass
class Stage:
    """A stage of the Dockerfile.

    Attributes:
        base: the stage or the image that it begins with.
        instructions: the names of its instructions, with their arguments.
    """

    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        """The arguments of all instructions with a name."""
        return [arguments for each, arguments in self.instructions if each == name]


def stages() -> dict[str, Stage]:
    text = re.sub(r"^ *#.*\n", "", dockerfile(), flags=re.MULTILINE)
    found, current = dict[str, Stage](), Stage("")
    for line in re.sub(r"\\\n", " ", text).splitlines():
        name, _, arguments = line.strip().partition(" ")
        if name == "FROM":
            base, name_of = re.fullmatch(r"(\S+) AS (\S+)", arguments).groups()  # type: ignore[union-attr]  # each stage has a name
            current = found[name_of] = Stage(base)
        elif name:
            current.instructions.append((name, arguments))
    return found


def line_of(image: str) -> list[Stage]:
    """The stages that an image consists of, its own one last."""
    known, line = stages(), list[Stage]()
    while image in known:
        line.insert(0, known[image])
        image = known[image].base
    return line


def last(image: str, name: str) -> str:
    return [*chain.from_iterable(stage.all(name) for stage in line_of(image))][-1]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_any_user_but_root(image: str) -> None:
    user, group = last(image, "USER").split(":")

    assert int(user) > 0
    assert int(group) > 0


@pytest.mark.parametrize("image", IMAGES)
def test_only_tmp_is_written(image: str) -> None:
    settings = " ".join(last_settings(image))
    folders = [*chain.from_iterable(stage.all("WORKDIR") for stage in line_of(image))]

    assert "HOME=/tmp" in settings.split()
    assert set(folders) <= {"/tmp"}
    assert not [stage for stage in line_of(image) if stage.all("VOLUME")]


def last_settings(image: str) -> list[str]:
    return [*chain.from_iterable(stage.all("ENV") for stage in line_of(image))]


def copies_of_the_checkout() -> list[str]:
    """What gets from the checkout into an image as it is, also by a stage with only such files."""
    known = stages()
    copies = [*chain.from_iterable(s.all("COPY") for image in IMAGES for s in line_of(image))]
    made = [re.match(r"--from=(\S+) /made", each) for each in copies]
    own = (known[each[1]] for each in made if each)
    into_made = (c for stage in own for c in stage.all("COPY") if re.search(r" /made/?$", c))
    return [*(c for c in copies if "--from=" not in c), *into_made]


def test_what_is_copied_from_a_checkout_is_readable_whatever_its_umask_was() -> None:
    copies = copies_of_the_checkout()

    assert {each.split()[-2] for each in copies} >= {
        "docker/entrypoint",
        "spark_app/main.py",
        "docker/openvex.json",
    }
    for each in copies:
        mode = re.match(r"--chmod=0([0-7]{3}) ", each)
        assert mode, f"COPY {each}: a checkout with umask 077 makes it root's alone"
        everybody = int(mode[1][2])
        assert everybody & 4, each
        assert bool(everybody & 1) == (each.split()[-2] == "docker/entrypoint"), each
        assert not everybody & 2, each


def test_nothing_belongs_to_one_user_of_the_image() -> None:
    copies = [*chain.from_iterable(s.all("COPY") for image in IMAGES for s in line_of(image))]

    assert not [each for each in copies if "--chown" in each]
