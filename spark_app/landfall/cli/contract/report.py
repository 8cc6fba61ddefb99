"""Prints what ``landfall contract check`` has found out."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.markup import escape

from landfall.api.spec import ConsumerGroup
from landfall.cli.contract.findings import FindingResult, RowOutcome, TopicFindings, TriedRows
from landfall.cli.text import console

_SHOWN = 5
"""Rows of each outcome that are printed; ``--json`` has all that do not stay the same."""


def show(path: Path, group: ConsumerGroup, found: Sequence[TopicFindings]) -> None:
    """Print what was found out about a schema, topic by topic, and whether anything fails."""
    out = console.out()
    for topic in found:
        name = f"topic {topic.topic}" if topic.topic else "every topic"
        out.print(f"[bold]{escape(name)}[/bold] ({topic.path})")
        for finding in topic.findings:
            _line(finding.result, f"{finding.field}: {finding.message}")
        for line in _lines_of_rows(topic.tried):
            _line(*line)
    failures = sum(topic.failures for topic in found)
    schema, name = escape(str(path)), escape(group.metadata.name)
    if failures:
        many = console.counted(failures, "failure")
        out.print(f"[red]{many}[/red]: {schema} does not fit the group {name}")
    else:
        out.print(f"[green]ok[/green]: {schema} fits the group {name}")


_STYLES = {FindingResult.OK: "green", FindingResult.CHANGES: "yellow", FindingResult.FAILS: "red"}


def _line(result: FindingResult, text: str) -> None:
    style = _STYLES[result]
    console.out().print(f"  [{style}]{result.lower():<8}[/{style}] {escape(text)}")


_TEXTS = {
    RowOutcome.SAME: "the same",
    RowOutcome.CHANGED: "with other values",
    RowOutcome.LEFT_OUT: "left out",
    RowOutcome.DEAD_LETTER: "dead letters",
    RowOutcome.NOT_HELD: "that the schema cannot hold",
}


def _lines_of_rows(tried: TriedRows) -> Iterator[tuple[FindingResult, str]]:
    if tried.skipped:
        yield FindingResult.OK, f"rows: none was tried: {tried.skipped}"
        return
    counts = tried.counts
    parts = [f"{console.count(counts[o])} {text}" for o, text in _TEXTS.items() if counts[o]]
    result = FindingResult.FAILS if tried.fails else FindingResult.OK
    compared = (
        "" if tried.compares_values else "; transforms change rows, so values are not compared"
    )
    yield (
        result,
        f"rows: of {console.counted(len(tried.rows), 'row')}, {', '.join(parts)}{compared}",
    )
    for outcome in RowOutcome:
        for row in () if outcome is RowOutcome.SAME else tried.first(outcome, _SHOWN):
            of_row = FindingResult.FAILS if outcome.fails else FindingResult.CHANGES
            yield of_row, f"{row.place}: {_OUTCOMES[outcome]}: {row.detail}"


_OUTCOMES = {
    RowOutcome.CHANGED: "changed",
    RowOutcome.LEFT_OUT: "left out",
    RowOutcome.DEAD_LETTER: "dead letter",
    RowOutcome.NOT_HELD: "cannot be written",
}


def document(path: Path, group: ConsumerGroup, found: Sequence[TopicFindings]) -> dict[str, object]:
    """Return the same as one object of JSON, with all rows that do not stay the same."""
    return {
        "schema": str(path),
        "group": group.metadata.name,
        "failures": sum(topic.failures for topic in found),
        "topics": [
            {
                "topic": topic.topic or None,
                "path": topic.path,
                "findings": [
                    {"field": of.field, "result": of.result, "message": of.message}
                    for of in topic.findings
                ],
                "rows": _rows_document(topic.tried),
            }
            for topic in found
        ],
    }


def _rows_document(tried: TriedRows) -> dict[str, object]:
    counts = tried.counts
    return {
        "tried": len(tried.rows),
        "skipped": tried.skipped or None,
        "values_compared": tried.compares_values,
        "counts": {outcome: counts[outcome] for outcome in RowOutcome},
        "rows": [
            {"place": row.place, "outcome": row.outcome, "detail": row.detail}
            for row in tried.rows
            if row.outcome is not RowOutcome.SAME
        ],
    }
