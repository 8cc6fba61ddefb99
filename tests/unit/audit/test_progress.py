"""An audit that takes long shows its progress, and its result stays on standard output."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from landfall_audit.cli import console


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., io.StringIO]:
    """Let standard error be a terminal, or a pipe, and return what is written to it."""

    def of(*, is_terminal: bool) -> io.StringIO:
        written = io.StringIO()
        made = Console(file=written, force_terminal=is_terminal, width=100, _environ={})
        monkeypatch.setattr(console, "err", lambda: made)
        return written

    return of


def test_a_terminal_has_one_line_and_the_result_stays_on_standard_output(
    shown: Callable[..., io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, clock = shown(is_terminal=True), Clock()

    with console.progress() as progress:
        progress.clock, progress.shown = clock, 0.0
        progress.seen.clear()
        progress.seen.append((0.0, 0))
        clock.now = 10
        progress(12_000, 40_000)
        print("a result")

    line = "audit: 12,000 of 40,000 offsets (30 %, ETA 23s), 1,200 offsets/s"
    assert line in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is erased at the end"
    assert capsys.readouterr().out == "a result\n"


def test_a_pipe_has_a_line_now_and_then() -> None:
    lines, clock = list[str](), Clock()
    progress = console.AuditProgress(lines.append, 15.0, clock)

    for second in range(1, 61):
        clock.now = second
        progress(second * 100, 12_000)

    assert [line.partition(" of")[0] for line in lines] == [
        f"audit: {number}" for number in ("500", "2,000", "3,500", "5,000")
    ]
    assert lines[-1] == "audit: 5,000 of 12,000 offsets (41 %, ETA 1m10s), 100 offsets/s"


def test_a_short_audit_shows_none(shown: Callable[..., io.StringIO]) -> None:
    pipe = shown(is_terminal=False)

    with console.progress() as progress:
        progress(10, 10)

    assert pipe.getvalue() == ""
