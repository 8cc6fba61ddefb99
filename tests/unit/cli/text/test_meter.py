"""The present rate of something, the time left, and what long commands print of it."""

import io

import pytest
from rich.console import Console

from landfall.cli.text.meter import (
    FIRST_SECONDS,
    LINE_SECONDS,
    WINDOW_SECONDS,
    Meter,
    Progress,
    advancing,
    left_text,
    seconds_left,
)


def metered(*points: tuple[float, float]) -> Meter:
    meter = Meter()
    for now, value in points:
        meter.add(now, value)
    return meter


def test_the_rate_is_that_of_the_last_half_minute_and_not_of_the_whole_time() -> None:
    slow = [(float(second), second * 1.0) for second in range(100)]
    fast = [(100.0 + second, 100 + second * 50.0) for second in range(60)]

    assert metered(*slow).rate == pytest.approx(1.0)
    assert metered(*slow, *fast).rate == pytest.approx(50.0)


def test_a_rate_of_batches_is_not_zero_between_them() -> None:
    batches = [(0.0, 0.0), (60.0, 600.0), (120.0, 1200.0), (180.0, 1800.0)]

    assert metered(*batches).rate == pytest.approx(10.0)
    assert metered(*batches, (200.0, 1800.0)).rate == pytest.approx(600 / 80)


def test_what_has_stopped_has_no_speed_and_no_end() -> None:
    stopped = metered((0, 0), (10, 100), (10 + 2 * WINDOW_SECONDS, 100))

    assert stopped.rate == 0.0
    assert seconds_left(50, stopped.rate) is None


def test_nothing_is_said_from_less_than_a_second() -> None:
    assert Meter().rate is None
    assert metered((0, 0), (0.5, 1_000_000)).rate is None


def test_a_value_may_shrink() -> None:
    assert metered((0, 100), (10, 80)).rate == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 10, None, "0 %"),
        (9_999, 10_000, 0.2, "99 %, ETA 1s"),
        (10, 10, None, "100 %"),
        (42, 100, 5400.0, "42 %, ETA 1h30m"),
        (5, None, None, ""),
    ],
)
def test_a_share_and_the_time_left(
    done: int, total: int | None, seconds: float | None, text: str
) -> None:
    assert left_text(done, total, seconds) == text


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_long_command_prints_a_line_now_and_then() -> None:
    lines, clock = list[str](), Clock()
    progress = Progress("verify", "objects", 1000, lines.append, clock)

    for second in range(1, 61):
        clock.now = second
        progress(second * 10)

    assert [line.partition(" of")[0] for line in lines] == [
        f"verify: {int(FIRST_SECONDS + number * LINE_SECONDS) * 10}" for number in range(4)
    ]
    assert lines[-1] == "verify: 500 of 1,000 objects (50 %, ETA 50s), 10 objects/s"


def test_a_short_command_prints_nothing() -> None:
    out = io.StringIO()

    with advancing("verify", "objects", 10, Console(file=out)) as progress:
        assert list(progress.over([1, 2, 3], position=int)) == [1, 2, 3]

    assert out.getvalue() == ""


def test_a_total_that_was_too_small_is_never_exceeded() -> None:
    lines, clock = list[str](), Clock()
    progress = Progress("scan", "ledger slots", 10, lines.append, clock)

    clock.now = 10
    progress(12)

    assert lines == ["scan: 12 of 12 ledger slots (100 %), 1 ledger slots/s"]


def test_what_is_counted_may_change_on_the_way() -> None:
    lines, clock = list[str](), Clock()
    progress = Progress("fsck", "ledger slots", None, lines.append, clock)

    clock.now = 10
    progress(100)
    progress.begin("objects", 400)
    clock.now = 30
    progress(100)

    assert lines == [
        "fsck: 100 ledger slots, 10 ledger slots/s",
        "fsck: 100 of 400 objects (25 %, ETA 1m), 5 objects/s",
    ]


def test_a_terminal_has_one_line_and_results_stay_on_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, clock = io.StringIO(), Clock()
    shown = Console(file=terminal, force_terminal=True, width=100, _environ={})

    with advancing("verify", "objects", 4, shown) as progress:
        monkeypatch.setattr(progress, "clock", clock)
        progress.begin("objects", 4)
        progress.shown = 0
        clock.now = 10
        progress(2)
        print("a result")

    assert "verify: 2 of 4 objects (50 %, ETA 10s)" in terminal.getvalue()
    assert capsys.readouterr().out == "a result\n"
