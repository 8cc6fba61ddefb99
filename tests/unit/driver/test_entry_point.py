"""What the environment of a driver's pod says reaches the driver."""

import argparse
import json
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from landfall.api.contract import (
    CONTROL_TOKEN_FILE,
    GROUP_FILE,
    KNOWN_LEDGER,
    LEDGER_ANCHOR,
    LOCAL_TOKEN_FILE,
    OPERATOR_KEYS,
    PEERS,
    POD_UID,
    REVISION,
    ExitCode,
    LedgerAnchor,
    LedgerPosition,
)
from landfall.driver.process import run
from landfall.driver.process.handover import ContenderOptions
from landfall.driver.process.run import RunOptions, drive, run_group
from landfall.driver.spark.executor_problems import ExecutorProblems
from landfall.errors import Reason, Stalled
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import FakeRunner, group
from tests.support.landing.lent_spark import lending
from tests.support.landing.processes import ENTRY

HASH = "ab" * 32
ANCHOR = LedgerAnchor(LedgerPosition(3, 120), HASH)
PEER = "clicks-driver.logs.svc"


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The entry point of a driver's pod, which leaves the logging of this process alone."""
    spec = spec_from_file_location("entry_point", ENTRY)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "log_as_json", lambda: None)
    return module


def started(
    entry: ModuleType, folder: Path, run_group: Callable[..., ExitCode], **environment: str
) -> ExitCode:
    """Start a driver in this environment; ``run_group`` stands for what it runs."""
    file = folder / "group.json"
    file.write_text(json.dumps(group().model_dump(mode="json", by_alias=True)))
    entry.run_group = run_group  # type: ignore[attr-defined]  # the module is of this test alone
    arguments = argparse.Namespace(
        host="127.0.0.1", http_port=0, control_port=0, termination_file=str(folder / "log")
    )
    code: ExitCode = entry.main(arguments, {GROUP_FILE: str(file), **environment})
    return code


def test_the_known_ledger_and_the_peers_are_read(entry: ModuleType, tmp_path: Path) -> None:
    given: list[RunOptions] = []

    def run_group(_: object, options: RunOptions, __: object) -> ExitCode:
        given.append(options)
        return ExitCode.OK

    known = {KNOWN_LEDGER: "3/120", LEDGER_ANCHOR: f"3/120:{HASH}"}
    started(entry, tmp_path, run_group, **known, **{PEERS: PEER})
    started(entry, tmp_path, run_group, **{KNOWN_LEDGER: ""})

    assert [(o.known_ledger, o.anchor, o.peers) for o in given] == [
        (LedgerPosition(3, 120), ANCHOR, PEER),
        (None, None, ""),
    ]


def test_a_known_ledger_that_cannot_be_read_starts_nothing(
    entry: ModuleType, tmp_path: Path
) -> None:
    def run_group(*_: object) -> ExitCode:
        raise AssertionError("the driver must not run")

    (tmp_path / "log").touch()

    assert started(entry, tmp_path, run_group, **{KNOWN_LEDGER: "3"}) is ExitCode.USAGE
    assert (tmp_path / "log").read_text().startswith("SpecInvalid: LANDFALL_KNOWN_LEDGER: '3' is")
    assert started(entry, tmp_path, run_group, **{LEDGER_ANCHOR: "3/1"}) is ExitCode.USAGE
    assert "LANDFALL_LEDGER_ANCHOR: '3/1' is" in (tmp_path / "log").read_text()


def test_a_ledger_that_is_behind_is_a_fault_of_the_spec(entry: ModuleType, tmp_path: Path) -> None:
    def run_group(*_: object) -> ExitCode:
        raise Stalled(Reason.LEDGER_BEHIND, "is empty")

    (tmp_path / "log").touch()

    assert started(entry, tmp_path, run_group) is ExitCode.USAGE
    assert (tmp_path / "log").read_text() == "LedgerBehind: is empty\n"


class Contending(Exception):  # noqa: N818  # it is no error
    """Ends ``drive`` where it would contend for the lane."""


def test_the_known_ledger_and_the_peers_reach_the_contender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[ContenderOptions] = []
    asked: list[str] = []

    def contend(*, options: ContenderOptions, **_: Any) -> None:
        given.append(options)
        raise Contending

    def is_any_working(name: str) -> bool:
        asked.append(name)
        return True

    monkeypatch.setattr(run, "LaneContender", contend)
    monkeypatch.setattr(run, "is_any_working", is_any_working)
    store = MemoryStore()

    known = RunOptions(peers=PEER, known_ledger=LedgerPosition(3, 120), anchor=ANCHOR)
    for options in (known, RunOptions()):
        with pytest.raises(Contending):
            drive(group(), store, FakeRunner(store), options)

    assert [each.known_ledger for each in given] == [LedgerPosition(3, 120), None]
    assert [each.anchor for each in given] == [ANCHOR, None]
    assert [each.is_owner_working() for each in given] == [True, False]
    assert asked == [PEER]


def test_what_spark_prints_reaches_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def context(*arguments: object) -> AbstractContextManager["Future[Any]"]:
        given.append(arguments[2])
        return lending(None)()

    def runner(_: object, problems: object) -> None:
        given.append(problems)

    monkeypatch.setattr(run, "open_stores", lambda _: MemoryStore())
    monkeypatch.setattr(run, "explain", lambda _: None)
    monkeypatch.setattr(run, "starting_spark", context)
    monkeypatch.setattr(run, "SparkRunner", runner)
    monkeypatch.setattr(run, "drive", lambda **_: ExitCode.OK)

    assert run_group(group(), RunOptions()) is ExitCode.OK

    read, reported = given
    assert isinstance(read, ExecutorProblems)
    assert read is reported


def test_what_opens_the_control_port_is_read(entry: ModuleType, tmp_path: Path) -> None:
    given: list[RunOptions] = []

    def run_group(_: object, options: RunOptions, __: object) -> ExitCode:
        given.append(options)
        return ExitCode.OK

    local, keys = tmp_path / "local", tmp_path / "keys.json"
    local.write_text("of the container before")
    files = {LOCAL_TOKEN_FILE: str(local), OPERATOR_KEYS: str(keys)}
    of_pod = {REVISION: "g1-1a2b3c4d", POD_UID: "pod-uid"}
    started(entry, tmp_path, run_group, **{CONTROL_TOKEN_FILE: "/absent"}, **files, **of_pod)
    started(entry, tmp_path, run_group, **{CONTROL_TOKEN_FILE: "/absent"})
    started(entry, tmp_path, run_group, **files)

    signed, plain, none = (options.control for options in given)
    assert signed
    assert signed.signatures
    check = signed.signatures
    assert (check.keys_file, check.namespace, check.group) == (keys, "default", "fake")
    assert (check.revision, check.pod) == ("g1-1a2b3c4d", "pod-uid")
    assert signed.token_files == (Path("/absent"), local)
    assert local.stat().st_mode & 0o777 == 0o600
    assert len(local.read_text()) > 40
    assert plain
    assert (plain.token_files, plain.signatures, none) == ((Path("/absent"),), None, None)


def test_a_token_that_cannot_be_written_stops_no_driver(entry: ModuleType, tmp_path: Path) -> None:
    given: list[RunOptions] = []

    def run_group(_: object, options: RunOptions, __: object) -> ExitCode:
        given.append(options)
        return ExitCode.OK

    files = {LOCAL_TOKEN_FILE: str(tmp_path / "absent" / "local"), CONTROL_TOKEN_FILE: "/absent"}

    assert started(entry, tmp_path, run_group, **files) is ExitCode.OK
    assert given[0].control
    assert given[0].control.token_files == (Path("/absent"),)
