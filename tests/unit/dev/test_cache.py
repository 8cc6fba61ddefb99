"""What is downloaded once per machine is what was pinned."""

import hashlib
from pathlib import Path

import pytest

from dev.servers import cache

CONTENT = b"a jar\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MAVEN = """\
#!/bin/sh
for option in "$@"; do
  case "$option" in -DoutputDirectory=*) folder="${option#*=}"; esac
  case "$option" in -Dartifact=*) artifact="${option#*=}"; esac
done
IFS=: ; set -- $artifact
mkdir -p "$folder"
echo "a jar" > "$folder/$2-$3${5:+-$5}.${4:-jar}"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose Maven needs no network."""
    (tmp_path / "mvn").write_text(MAVEN)
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_artifacts_are_fetched(tmp_path: Path) -> None:
    coordinates = ["org.one:one:1.0", "org.two:two:2.0:tar.gz:all"]

    files = cache.fetch(dict.fromkeys(coordinates, SHA256), tmp_path / "jars", "a test")

    assert files == [tmp_path / "jars/one-1.0.jar", tmp_path / "jars/two-2.0-all.tar.gz"]
    assert [file.read_bytes() for file in files] == [CONTENT] * 2


def test_an_artifact_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    expected = "0" * 64

    with pytest.raises(
        cache.MissingTool, match=f"org.one:one:1.0 has SHA-256 {SHA256}, expected {expected}"
    ):
        cache.fetch({"org.one:one:1.0": expected}, tmp_path, "a test")


def test_a_machine_without_maven_says_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))

    with pytest.raises(cache.MissingTool, match=r"a test needs `mvn`.*apt-get install maven"):
        cache.fetch({"org.one:one:1.0": SHA256}, tmp_path, "a test")
