"""Secrets as folders of files."""

from pathlib import Path

import pytest

from landfall.api.secrets import read_secret
from landfall.errors import Reason, Stalled


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "kafka-auth").mkdir()
    return tmp_path / "kafka-auth"


def test_every_file_is_a_key_less_its_final_newline(folder: Path) -> None:
    (folder / "sasl.username").write_text("me")
    (folder / "sasl.password").write_text(" pass\n\n")

    assert read_secret("kafka-auth") == {"sasl.username": "me", "sasl.password": " pass\n"}


def test_a_secret_as_kubernetes_mounts_it_has_no_dot_files(folder: Path) -> None:
    (folder / "..2026_11_21").mkdir()
    (folder / "..2026_11_21" / "key").write_text("value")
    (folder / "..data").symlink_to("..2026_11_21")
    (folder / "key").symlink_to("..data/key")

    assert read_secret("kafka-auth") == {"key": "value"}


@pytest.mark.parametrize("name", ["absent", "", "..", ".", "../kafka-auth", "/etc"])
def test_a_secret_that_is_not_there_is_named(folder: Path, name: str) -> None:
    with pytest.raises(Stalled, match="secret") as stalled:
        read_secret(name)

    assert (stalled.value.reason, repr(name) in str(stalled.value)) == (Reason.SPEC_INVALID, True)


def test_a_value_that_cannot_be_read_is_not_shown(folder: Path) -> None:
    (folder / "key").write_bytes(b"hidden\xff")

    with pytest.raises(Stalled, match="UnicodeDecodeError") as stalled:
        read_secret("kafka-auth")
    assert "hidden" not in str(stalled.value)
