"""The tables of a run, for the terminal and in Markdown for the documentation. Pure."""

from collections.abc import Iterator

from rich.table import Table

from tests.chaos.outcome import GroupResult, Outcome, describe_kinds

Row = tuple[str, str]


def figures(outcome: Outcome) -> Iterator[Row]:
    """The rows of the first table: what was done, and what came of it."""
    load, injected = outcome.load, outcome.injected
    yield "seed, minutes", f"{outcome.seed}, {outcome.minutes:g}"
    yield "faults injected", f"{injected.total():,}, of {len(injected)} kinds"
    hits = ", ".join(f"{kind} {number:,}" for kind, number in sorted(outcome.requests_hit.items()))
    yield "store requests hit by faults", f"{sum(outcome.requests_hit.values()):,} ({hits})"
    yield (
        "records produced",
        (
            f"{load.acknowledged:,} acknowledged, {load.aborted:,} in aborted transactions, "
            f"{load.in_doubt:,} in doubt"
        ),
    )
    seconds = max(load.seconds, 1)
    yield (
        "load held",
        (
            f"{load.acknowledged / seconds:,.0f} records/s, "
            f"{load.payload_bytes / seconds / 1e6:.2f} MB/s of payload"
        ),
    )
    for name, group in outcome.groups.items():
        rows = _group_figures(outcome, name, group)
        yield from ((f"{name}: {figure}", value) for figure, value in rows)
    yield from outcome.environment.items()


def _group_figures(outcome: Outcome, name: str, group: GroupResult) -> Iterator[Row]:
    check, pause = group.check, group.longest_pause(outcome.load.seconds)
    yield (
        "landed",
        (
            f"{group.records:,} records and {group.dead_letters:,} dead letters, "
            f"in {len(group.commits):,} commits"
        ),
    )
    yield "replaced", f"{group.retired:,} objects, by {group.replacing:,} others"
    yield (
        "missing, duplicates, misplaced, corrupted",
        f"{check.missing:,}, {check.duplicates:,}, {check.misplaced:,}, {check.corrupted:,}",
    )
    if check.other:
        yield "also wrong", "; ".join(check.other)
    if check.committed_by_kafka:
        yield "aborted by its producer, committed by Kafka", "; ".join(check.committed_by_kafka)
    kinds_during = describe_kinds(result.fault.kind for result in outcome.during(name, pause))
    yield (
        "longest pause between commits",
        f"{pause.seconds:.0f} s, during: {kinds_during or 'no fault'}",
    )
    seconds = group.seconds_to_land
    landed = (
        "NOT landed within the limit"
        if seconds is None
        else f"landed {seconds:.0f} s after load and faults ended"
    )
    yield "lag at the end", f"{group.lag:,} records, {landed}"


def kinds(outcome: Outcome) -> Iterator[Row]:
    """The rows of the second table: faults injected by kind, the commonest first."""
    return ((kind.value, f"{number}") for kind, number in outcome.injected.most_common())


def markdown(outcome: Outcome) -> str:
    """All tables in Markdown."""
    tables = [
        _markdown_table(("figure", "value"), figures(outcome)),
        _markdown_table(("fault", "injected"), kinds(outcome)),
    ]
    if outcome.growth:
        tables.append(_markdown_table(("growth", "first to last"), iter(outcome.growth)))
    return "\n".join(tables)


def render(title: str, rows: Iterator[Row]) -> Table:
    """One table for the terminal."""
    table = Table("", "", title=title, title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _markdown_table(head: Row, rows: Iterator[Row]) -> str:
    lines = [head, ("---", "---"), *rows]
    return "".join(f"| {left} | {right} |\n" for left, right in lines)
