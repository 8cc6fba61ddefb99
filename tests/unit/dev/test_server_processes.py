"""Whether a server runs is asked while ``env`` and a shell put it in their place."""

import subprocess

import pytest

from dev.servers.server import _command_line

CHAIN = "exec env A=1 env B=1 env C=1 sh -c 'echo started; exec sleep 60' marker"


def test_a_process_that_replaces_itself_is_never_taken_for_ended() -> None:
    for _ in range(20):
        process = subprocess.Popen(["/bin/sh", "-c", CHAIN, "marker"], stdout=subprocess.DEVNULL)
        try:
            lines = [_command_line(process.pid) for _ in range(100)]
        finally:
            process.kill()
            process.wait()
        assert all(lines), lines


@pytest.mark.parametrize("is_reaped", [False, True])
def test_one_that_ended_has_no_command_line(is_reaped: bool) -> None:
    process = subprocess.Popen(["/bin/true"])
    if is_reaped:
        process.wait()

    while line := _command_line(process.pid):
        assert "true" in line
