"""By which stored spec each generation was landed, as OPENs say. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class OpenedSpecs:
    """The stored specs that OPENs name.

    A generation has several if its spec was changed, and the generation was not raised.
    """

    _opens: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _last: tuple[int, str] | None = None

    def learn(self, generation: int, slot: int, digest: str) -> None:
        """Take note that a slot is owned by a generation with a stored spec; in order of slots."""
        if (generation, digest) != self._last:
            opens = self._opens.setdefault(generation, [])
            if not opens or opens[-1][0] < slot:
                opens.append((slot, digest))
                self._last = generation, digest

    def take(self, other: "OpenedSpecs") -> None:
        """Take note of what another one knows of later slots."""
        for slot, generation, digest in sorted(other):
            self.learn(generation, slot, digest)

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        """The first slots that are known of generations with a stored spec."""
        for generation, opens in self._opens.items():
            for slot, digest in opens:
                yield slot, generation, digest

    def __contains__(self, generation: int) -> bool:
        """Whether any slot of a generation is known."""
        return generation in self._opens

    def digest(self, generation: int, slot: int) -> str:
        """The stored spec by which a slot has landed objects of a generation; empty for none."""
        opens = self._opens.get(generation) or [(-1, "")]
        known = [digest for first, digest in opens if first <= slot]
        return known[-1] if known else opens[0][1]

    def digests(self, generation: int) -> list[str]:
        """The stored specs by which a generation was landed, the last one first; empty for none."""
        opens = self._opens.get(generation) or [(-1, "")]
        return list(dict.fromkeys(digest for _, digest in reversed(opens)))
