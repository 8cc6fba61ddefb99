"""The table of a run: for people, and as Markdown for the documentation. Pure."""

from collections.abc import Iterator

from rich.table import Table

from tests.chaos.outcome import Landed, Outcome, describe_kinds

Row = tuple[str, str]


def figures(outcome: Outcome) -> Iterator[Row]:
    """What is told, line by line."""
    load, injected = outcome.load, outcome.injected
    yield "seed, minutes", f"{outcome.seed}, {outcome.minutes:g}"
    yield "faults injected", f"{injected.total()}, of {len(injected)} kinds"
    hits = ", ".join(f"{kind} {number:,}" for kind, number in sorted(outcome.requests_hit.items()))
    yield "requests of the store that were hit", f"{sum(outcome.requests_hit.values()):,} ({hits})"
    yield (
        "records produced",
        (
            f"{load.acknowledged:,} acknowledged, {load.aborted:,} in aborted transactions, {load.in_doubt:,} in doubt"
        ),
    )
    per_second = load.acknowledged / max(load.seconds, 1)
    yield (
        "load held",
        f"{per_second:,.0f} records/s, {load.payload_bytes / max(load.seconds, 1) / 1e6:.2f} MB/s of payload",
    )
    for name, landed in outcome.groups.items():
        yield from ((f"{name}: {what}", value) for what, value in _of_group(outcome, name, landed))
    yield from outcome.about.items()


def _of_group(outcome: Outcome, name: str, landed: Landed) -> Iterator[Row]:
    check, pause = landed.check, landed.longest_pause(outcome.load.seconds)
    yield (
        "landed",
        f"{landed.records:,} records and {landed.dead_letters:,} dead letters, in {len(landed.commits):,} commits",
    )
    yield (
        "missing, duplicates, misplaced, corrupted",
        f"{check.missing}, {check.duplicates}, {check.misplaced}, {check.corrupted}",
    )
    if check.other:
        yield "also wrong", "; ".join(check.other)
    causes = (
        describe_kinds(struck.fault.kind for struck in outcome.during(name, pause)) or "no fault"
    )
    yield "longest pause between commits", f"{pause.seconds:.0f} s, during: {causes}"
    took = landed.seconds_to_land
    yield (
        "lag at the end",
        f"{landed.lag:,} records, landed "
        + ("NOT within the limit" if took is None else f"{took:.0f} s after load and faults ended"),
    )


def kinds(outcome: Outcome) -> Iterator[Row]:
    """Faults injected by kind, the most first."""
    return ((kind.value, f"{number}") for kind, number in outcome.injected.most_common())


def markdown(outcome: Outcome) -> str:
    """Both tables."""
    return (
        _table(("figure", "value"), figures(outcome))
        + "\n"
        + _table(("fault", "injected"), kinds(outcome))
    )


def shown(title: str, rows: Iterator[Row]) -> Table:
    """One of them, on a terminal."""
    table = Table("", "", title=title, title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _table(head: Row, rows: Iterator[Row]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "".join(f"| {left} | {right} |\n" for left, right in lines)
