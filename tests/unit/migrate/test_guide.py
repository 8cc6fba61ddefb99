"""The page for those who come from other programs and the converter know the same keys."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from landfall_migrate.connect import files as connect_files
from landfall_migrate.connect import keys as connect_keys
from landfall_migrate.connect import route as connect_route
from landfall_migrate.join import ReadObject, joint
from landfall_migrate.keys import Keys
from landfall_migrate.new_objects import Start
from landfall_migrate.old_objects import OldObject
from landfall_migrate.secor import files as secor_files
from landfall_migrate.secor import keys as secor_keys
from landfall_migrate.secor.records import PARSERS
from landfall_operator.api.crd import at
from tests.support.operator.crd_schema import group_schema
from tests.support.pages.markdown import DOCS, code

PAGE = (DOCS / "guides/coming-from.md").read_text()
BY_PROGRAM = [("Secor", secor_keys.KEYS), ("Kafka Connect's S3 sink", connect_keys.KEYS)]


def cells(heading: str) -> Iterator[str]:
    """The first cells of the table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n##")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return (line.strip("|").split("|")[0] for line in lines[1:])


def documented(heading: str) -> list[str]:
    """The keys that the page names, as patterns."""
    names = [name for cell in cells(heading) for name in re.findall("`([^`]+)`", cell)]
    whole = [f"partitioner.granularity.*{n}" if n == ".format" else n for n in names]
    return [name.replace("<topic>", "*") for name in whole if not name[0].isupper()]


def covers(pattern: str, key: str) -> bool:
    """Whether a pattern means a key, or some keys of another pattern."""
    return fnmatchcase(key.replace("*", "x"), pattern) or pattern == key


@pytest.mark.parametrize(("heading", "keys"), BY_PROGRAM)
def test_every_key_of_the_converter_is_on_the_page(heading: str, keys: Keys) -> None:
    patterns = documented(heading)
    own = [row.key for row in keys.rows if row not in secor_keys.PROCESS]

    assert [key for key in own if not any(covers(pattern, key) for pattern in patterns)] == []


@pytest.mark.parametrize(("heading", "keys"), BY_PROGRAM)
def test_every_key_on_the_page_is_known_to_the_converter(heading: str, keys: Keys) -> None:
    unknown = [
        name
        for name in documented(heading)
        if keys.find(name) is None
        and not any(fnmatchcase(row.key, name) for row in keys.rows if "*" in name)
    ]

    assert unknown == []


@pytest.mark.parametrize(
    ("heading", "classes"),
    [
        ("Secor's message parsers", PARSERS),
        ("Secor's file formats", secor_files.FORMATS),
        ("Connect's converters", connect_files.CONVERTERS),
        ("Connect's formats", connect_files.FORMATS),
        ("Connect's partitioners", connect_route.PARTITIONERS),
    ],
)
def test_page_and_converter_know_the_same_classes(
    heading: str, classes: Mapping[str, object]
) -> None:
    named = [n for cell in cells(heading) for n in re.findall("`([^`]+)`", cell)]

    assert sorted(named) == sorted(classes)


@pytest.mark.parametrize(("heading", "keys"), BY_PROGRAM)
def test_the_fields_of_the_tables_exist(heading: str, keys: Keys) -> None:
    spec = {"properties": {"spec": group_schema()["properties"]["spec"]}}

    for row in keys.rows:
        for field in row.fields:
            at(spec, f"spec.{field}")


@pytest.mark.parametrize(("heading", "keys"), BY_PROGRAM)
def test_every_row_says_where_its_key_goes_or_why_nowhere(heading: str, keys: Keys) -> None:
    assert [r.key for r in keys.rows if not (r.fields or r.why or r.refusal or r.is_secret)] == []


@pytest.mark.parametrize(("heading", "keys"), BY_PROGRAM)
def test_the_page_names_the_field_of_each_key(heading: str, keys: Keys) -> None:
    """Where the converter's table has fields for a key, the key's row has one of them."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n##")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    wrong = []
    for theirs, ours, *_ in lines[1:]:
        fields = set(re.findall("`([^`]+)`", ours))
        for name in re.findall("`([^`]+)`", theirs):
            row = keys.find(name)
            if row and row.fields and name != "transforms" and not _meet(fields, row.fields):
                wrong.append((name, row.fields, fields))

    assert wrong == []


# --------------------------------------------------------------------------- what the page shows


def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "guides/coming-from.md"
    (properties,) = code(page, "properties")
    shown, group = (b for b in code(page) if b.made_by.startswith("landfall migrate secor"))
    monkeypatch.chdir(tmp_path)
    Path("secor.properties").write_text(properties.text)
    command = shown.made_by.split()

    ended = main(command[1:])

    assert ended == ExitCode.FAULT
    assert shown.text == f"$ {shown.made_by}\n{capsys.readouterr().err}"
    assert group.text == Path("group.yaml").read_text()


def test_the_page_shows_what_the_check_prints() -> None:
    (block,) = (b for b in code(DOCS / "guides/coming-from.md") if "migrate check" in b.made_by)
    old, new = "clicks/dt=2026-11-20/1", "clicks/dt=2026-11-20/2_0_00000000000000042000"
    landed = LandedObject(Upload(new, "", (), ""), ObjectKind.DATA, 1, 42_000, 42_000, 0)
    ends = {
        TopicPartition("clicks", 0): (41_000, 41_999, Start(42_000, (landed,))),
        TopicPartition("clicks", 1): (38_000, 38_210, Start(38_214)),
    }
    lines = []
    for tp, (first, last, start) in ends.items():
        last_object = OldObject(f"{old}_{tp.partition}_{first:020}", tp, first, 1)
        read = ReadObject(last_object, last + 1 - first, last)
        lines.append(joint(tp, [read], start).line)

    assert block.text.splitlines() == [f"$ {block.made_by}", *lines]


def _meet(fields: set[str], others: Sequence[str]) -> bool:
    """Whether two lists of fields have one in common, or a section and a field of it."""
    pairs = [(one, other) for one in fields for other in others]
    return any(f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.") for a, b in pairs)
