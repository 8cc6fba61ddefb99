"""The figures of a whole run and their tables in Markdown, from what was measured. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import fill


@dataclass(frozen=True, slots=True)
class WholeRun:
    """One landing of one topic by one contender, everything counted.

    Attributes:
        contender: the program that landed it; its row in the tables.
        records: messages in the topic, all of which were found again in the landed objects.
        input_bytes: their payloads.
        cpu_seconds: of all its processes, from the first one's start to the last one's end.
        wall_seconds: until the command ended.
        peak_mb: of all its processes together, shared pages counted once.
        landed_bytes: size of the landed objects, without the contender's own records about them.
        objects: the number of landed objects.
        requests: everything the S3 server was asked, the contender's own records included.
    """

    contender: str
    records: int
    input_bytes: int
    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    landed_bytes: int
    objects: int
    requests: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A small and a large run of one contender, one right after the other."""

    small: WholeRun
    large: WholeRun

    def __post_init__(self) -> None:
        if (
            self.small.contender != self.large.contender
            or self.small.input_bytes >= self.large.input_bytes
        ):
            raise ValueError(
                f"not a small and a large run of one contender: {self.small}, {self.large}"
            )

    @property
    def total(self) -> float:
        """Input MB per CPU-second of the large run, start-up and all."""
        return self.large.input_bytes / 1e6 / self.large.cpu_seconds

    @property
    def marginal(self) -> float:
        """Input MB per CPU-second of what the large run landed more than the small one.

        Start-up is in both runs and so in neither's difference: this is the speed of a service that
        runs for days.

        Raises:
            ValueError: the large run used no more CPU than the small one, so the sizes are too
                close.
        """
        more_cpu = self.large.cpu_seconds - self.small.cpu_seconds
        if more_cpu <= 0:
            raise ValueError(f"{self.large} used no more CPU than {self.small}")
        return (self.large.input_bytes - self.small.input_bytes) / 1e6 / more_cpu

    @property
    def fixed_cpu_seconds(self) -> float:
        """CPU-seconds of a run that lands nothing, on the straight line through both runs."""
        return self.small.cpu_seconds - self.small.input_bytes / 1e6 / self.marginal


def with_range(values: Iterable[float], digits: int = 1) -> str:
    """The median, and in brackets the least and the most unless both read the same."""
    known = list(values)
    middle, least, most = (
        f"{each:,.{digits}f}" for each in (median(known), min(known), max(known))
    )
    return middle if least == most else f"{middle} ({least}\u2013{most})"


def speed_table(pairs: Sequence[Pair]) -> str:
    """Speed, time and memory: a row for each contender, in the order of their first pair."""

    def row(same: Sequence[Pair]) -> list[str]:
        return [
            same[0].large.contender,
            f"**{with_range(pair.total for pair in same)}**",
            f"**{with_range(pair.marginal for pair in same)}**",
            with_range(pair.fixed_cpu_seconds for pair in same),
            with_range(pair.large.cpu_seconds for pair in same),
            with_range((pair.large.wall_seconds for pair in same), 0),
            with_range((pair.large.peak_mb for pair in same), 0),
        ]

    large = pairs[0].large
    size = f"{large.records / 1e6:g} M"
    heads = (
        "contender",
        f"total, MB per CPU-s ({size})",
        "marginal, MB per CPU-s",
        "fixed, CPU-s",
        f"CPU-s ({size})",
        f"wall s ({size})",
        f"peak MB ({size})",
    )
    return markdown(heads, [row(same) for same in _by_contender(pairs)])


def ratio_table(pairs: Sequence[Pair], reference: str) -> str:
    """How many times as much as ``reference`` each other contender reaches, by their medians.

    Raises:
        ValueError: no pair is of the reference.
    """

    def medians(same: Sequence[Pair]) -> list[float]:
        values = [(each.total, each.marginal, each.large.landed_bytes) for each in same]
        return [median(column) for column in zip(*values, strict=True)]

    by_name = {same[0].large.contender: medians(same) for same in _by_contender(pairs)}
    if reference not in by_name:
        raise ValueError(f"nothing to compare with: no run of {reference!r}")
    base = by_name.pop(reference)
    rows = [
        [name, f"{total / base[0]:.1f}", f"{marginal / base[1]:.1f}", f"{landed / base[2]:.2f}"]
        for name, (total, marginal, landed) in by_name.items()
    ]
    return markdown((f"times {reference}", "total", "marginal", "MB landed"), rows)


def floor_table(pairs: Sequence[Pair], floor: str) -> str:
    """The speed of each other contender as a share of the floor's in the same repetition.

    Raises:
        ValueError: the floor has not as many pairs as another contender.
    """
    by_name = {same[0].large.contender: same for same in _by_contender(pairs)}
    floors = by_name.pop(floor, [])

    def row(name: str, same: Sequence[Pair]) -> list[str]:
        both = list(zip(same, floors, strict=True))
        return [
            name,
            with_range((each.total / lowest.total for each, lowest in both), 2),
            with_range((each.marginal / lowest.marginal for each, lowest in both), 2),
        ]

    rows = [row(name, same) for name, same in by_name.items()]
    return markdown(("of the floor's speed", "total", "marginal"), rows)


def output_table(pairs: Sequence[Pair]) -> str:
    """What was written: a row for each contender, of its large runs."""

    def row(same: Sequence[Pair]) -> list[str]:
        runs = [pair.large for pair in same]
        requests = [run.requests for run in runs if run.requests is not None]
        return [
            runs[0].contender,
            with_range((run.landed_bytes / 1e6 for run in runs), 0),
            with_range((run.input_bytes / run.landed_bytes for run in runs), 2),
            with_range((run.objects for run in runs), 0),
            with_range(requests, 0) if requests else "not known",
            f"{runs[0].records:,} of {runs[0].records:,}",
        ]

    heads = (
        "contender",
        "MB landed",
        "MB in per MB landed",
        "objects",
        "S3 requests",
        "records found again",
    )
    return markdown(heads, [row(same) for same in _by_contender(pairs)])


def _by_contender(pairs: Sequence[Pair]) -> list[list[Pair]]:
    names = dict.fromkeys(pair.large.contender for pair in pairs)
    return [[pair for pair in pairs if pair.large.contender == name] for name in names]


def paragraph(text: str) -> str:
    """Text for Markdown in lines of at most 118 columns; a list item when it begins with ``- ``."""
    indent = "  " if text.startswith("- ") else ""
    return fill(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([first, "|" + "---|" * len(heads), *others])
