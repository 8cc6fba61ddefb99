"""What ``kubectl landfall`` asks of kubectl; ``tests/integration`` runs it with the real one."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall_operator.kubectl import main
from landfall_operator.kubectl.plugin import IN_THE_POD, parser

GROUP = {"metadata": {"name": "clicks"}, "status": {"rollout": {"active": "g3-1a2b3c4d"}}}


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named kubectl that shows one group and writes down how it is called."""
    program, calls = tmp_path / "kubectl", tmp_path / "calls"
    program.write_text(
        f'#!/bin/sh\nfor word in "$@"; do printf \'%s\\n\' "$word" >> {calls}; done\n'
        f"echo . >> {calls}\ncase \"$*\" in *' get '*|'get '*) cat {tmp_path / 'group'};; esac\n"
        f"case \"$*\" in *'--previous'*) exit 9;; esac\n"
    )
    program.chmod(0o755)
    (tmp_path / "group").write_text(json.dumps(GROUP))
    calls.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return calls


def calls(made: Path) -> list[list[str]]:
    return [call.splitlines() for call in made.read_text().split(".\n") if call]


def run(kubectl: Path, *words: str) -> tuple[int, list[str]]:
    """The exit code, and the last call of kubectl."""
    return main(words), calls(kubectl)[-1]


def test_a_command_in_the_pod_gets_the_groups_file_and_all_further_words(kubectl: Path) -> None:
    words = ("skip", "clicks", "clicks/3", "--why", "expired, see INC-12", "-n", "logs")

    code, call = run(kubectl, *words)

    assert code == ExitCode.OK
    assert call == [
        *("--namespace=logs", "exec", "deployment/clicks-g3-1a2b3c4d", "-c", "driver", "--"),
        *("landfall", "skip", "/etc/landfall/group/group.json"),
        *("clicks/3", "--why", "expired, see INC-12"),
    ]


def test_a_backfill_is_promoted_by_a_word_of_its_own(kubectl: Path) -> None:
    """Since `promote` is about a rollout."""
    code, call = run(kubectl, "promote-backfill", "clicks", "fix-ts", "--why", "INC-12")

    assert code == ExitCode.OK
    assert call[-5:] == ["promote", "/etc/landfall/group/group.json", "fix-ts", "--why", "INC-12"]


def test_a_command_in_the_pod_ends_as_it_does_there(kubectl: Path) -> None:
    assert run(kubectl, "audit", "clicks", "--previous")[0] == 9


def test_without_a_driver_no_command_runs_in_it(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kubectl.parent / "group").write_text(json.dumps({"metadata": {"name": "clicks"}}))

    assert run(kubectl, "status", "clicks")[0] == ExitCode.UNAVAILABLE
    assert "no driver has been started" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "annotation"),
    [
        (("rollback", "clicks"), "landfall.dev/rollback="),
        (("retry", "clicks"), "landfall.dev/retry="),
        (("pause", "clicks"), "landfall.dev/pause-reconciliation=true"),
        (("resume", "clicks"), "landfall.dev/pause-reconciliation-"),
        (("accept-ledger", "clicks"), "landfall.dev/accept-ledger=true"),
    ],
)
def test_a_verb_sets_its_annotation(kubectl: Path, words: Sequence[str], annotation: str) -> None:
    no_wait = ("--timeout", "0") if words[0] in {"rollback", "retry"} else ()

    code, call = run(kubectl, *words, *no_wait)

    assert code == ExitCode.OK
    assert call == ["annotate", "consumergroups.landfall.dev", "clicks", "--overwrite", annotation]


def test_a_named_revision_is_a_request_of_its_own_each_time(kubectl: Path) -> None:
    """The operator carries a value out once, and a revision may be the right one again."""
    words = ("rollback", "clicks", "--to", "g2-5e6f7a8b", "--timeout", "0")

    values = [run(kubectl, *words)[1][-1] for _ in range(2)]

    assert all(value.startswith("landfall.dev/rollback=g2-5e6f7a8b 20") for value in values)
    assert values[0] != values[1]


def answering(folder: Path, message: str) -> None:
    """Let the operator refuse the next request."""
    last = {"verb": "retry", "accepted": False, "message": message}
    answered = {**GROUP, "status": {**GROUP["status"], "lastRequest": last}}
    program = folder / "kubectl"
    of_annotate = f'case "$*" in *annotate*) cp {folder / "answered"} {folder / "group"};; esac'
    program.write_text(f"{program.read_text()}{of_annotate}\n")
    (folder / "answered").write_text(json.dumps(answered))


def test_a_refused_request_ends_with_a_code_of_its_own(
    kubectl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The group has not stalled: the request has only not been carried out."""
    answering(tmp_path, "nothing to try again")

    assert run(kubectl, "retry", "clicks", "--timeout", "20")[0] == ExitCode.REFUSED
    assert "nothing to try again" in capsys.readouterr().err


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\r\x9b2J all landed"


def test_a_status_of_somebody_else_commands_no_terminal(
    kubectl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may write the status of a group can write this."""
    answering(tmp_path, HOSTILE)

    run(kubectl, "retry", "clicks", "--timeout", "20")

    said = capsys.readouterr().err
    assert "all landed" in said
    assert said.rstrip("\n").isprintable()


def test_an_error_of_kubectl_commands_no_terminal(
    kubectl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may quote names, and what a webhook answers."""
    (tmp_path / "said").write_text(HOSTILE)
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat {tmp_path / 'said'} >&2\nexit 1\n")

    assert main(["retry", "clicks"]) == 1
    said = capsys.readouterr().err
    assert "all landed" in said
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "name", ["-A", "--kubeconfig=/tmp/x", "a b", "a/b", "", "A", "a\x1b[2J", "."]
)
def test_what_is_no_name_of_a_group_reaches_no_kubectl(kubectl: Path, name: str) -> None:
    for words in (["retry", "--", name], ["status", "--", name], ["pause", "--", name]):
        with pytest.raises(SystemExit):
            main(words)
    assert not calls(kubectl)


@pytest.mark.parametrize("active", ["-A", "g1 --all", "g1/../x", "g1\x1b[2J", "G1"])
def test_a_revision_that_is_none_names_no_driver(
    kubectl: Path, capsys: pytest.CaptureFixture[str], active: str
) -> None:
    """Whoever may write the status of a group can write this."""
    (kubectl.parent / "group").write_text(json.dumps({"status": {"rollout": {"active": active}}}))

    assert run(kubectl, "status", "clicks")[0] == 1
    assert all("exec" not in call for call in calls(kubectl))
    said = capsys.readouterr().err
    assert "status.rollout.active is no revision" in said
    assert said.replace("\n", "").isprintable()


def test_an_operator_that_does_not_answer_is_reported(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(kubectl, "retry", "clicks", "--timeout", "0.1")[0] == ExitCode.UNAVAILABLE
    assert "is the operator running?" in capsys.readouterr().err


def test_an_unknown_option_of_a_verb_is_an_error(kubectl: Path) -> None:
    with pytest.raises(SystemExit):
        main(["retry", "clicks", "--fast"])
    assert not calls(kubectl)


def test_every_command_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    for command in IN_THE_POD:
        with pytest.raises(SystemExit) as done:
            parser().parse_args([command, "--help"])
        assert done.value.code == 0
        there = command.removesuffix("-backfill")
        assert f"go to `landfall {there}`" in capsys.readouterr().out
