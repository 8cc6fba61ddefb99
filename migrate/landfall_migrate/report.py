"""The outcome of every key of the input, as values, as text and as JSON. Pure.

No report holds a value of the input: names of keys and fields, and reasons.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class KeyOutcome(StrEnum):
    """The outcome of a key."""

    TAKEN = "taken"
    SECRET = "secret"  # noqa: S105  # the name of an outcome
    NOT_SUPPORTED = "not supported"
    UNKNOWN = "unknown"
    NOT_NEEDED = "no longer needed"


FAULTS = frozenset({KeyOutcome.NOT_SUPPORTED, KeyOutcome.UNKNOWN})
"""With these, other things may be landed than before."""


@dataclass(frozen=True, slots=True)
class KeyReport:
    """The outcome of one key, and why.

    Attributes:
        key: as the input spells it.
        outcome: its outcome.
        fields: the fields below ``spec`` that have its value.
        why: a reason, or what to do; may be empty for what is taken.
        place: where it stands in the input.
    """

    key: str
    outcome: KeyOutcome
    fields: tuple[str, ...] = ()
    why: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class NeededSecret:
    """A Secret that must exist before the group starts.

    Attributes:
        name: of the Secret.
        field: that names it.
        keys: its keys, each with the key of the input that has its value.
        files: of these, the keys whose content is a file.
    """

    name: str
    field: str
    keys: Mapping[str, str]
    files: frozenset[str] = frozenset()

    def command(self, namespace: str | None) -> str:
        """The command that makes it, without values."""
        given = (
            f"--from-file={key}=FILE" if key in self.files else f"--from-literal={key}=…"
            for key in self.keys
        )
        at = f" -n {namespace}" if namespace else ""
        return f"kubectl{at} create secret generic {self.name} {' '.join(given)}"


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The outcome of the whole input.

    Attributes:
        accounts: of every key, exactly one.
        defaults: fields that set what the old program did by default, and why.
        missing: what a group needs and the input lacks.
        secrets: that must exist.
        next_steps: commands and sentences, in order.
        namespace: of the group, if one was given.
    """

    accounts: tuple[KeyReport, ...]
    defaults: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    secrets: tuple[NeededSecret, ...] = ()
    next_steps: tuple[str, ...] = ()
    namespace: str | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether the group lands what the old program landed, as far as settings show."""
        return not self.missing and all(account.outcome not in FAULTS for account in self.accounts)

    def of(self, outcome: KeyOutcome) -> tuple[KeyReport, ...]:
        """The keys that this became of."""
        return tuple(account for account in self.accounts if account.outcome is outcome)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        for outcome in KeyOutcome:
            if found := self.of(outcome):
                yield f"{outcome} ({len(found)})"
                yield from _grouped(found)
        if self.missing:
            yield "missing"
            yield from (f"  {item}" for item in self.missing)
        if self.defaults:
            yield "not in the input"
            yield from (f"  {field}: {why}" for field, why in self.defaults)
        if self.secrets:
            yield "Secrets to create first"
            for secret in self.secrets:
                yield f"  {secret.command(self.namespace)}"
                yield from (f"    {key} is the value of {old}" for key, old in secret.keys.items())
        if self.next_steps:
            yield "next"
            yield from (f"  {step}" for step in self.next_steps)

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object: ``keys``, ``defaults``, ``missing``, ``secrets``, …."""
        return {
            "complete": self.is_complete,
            "keys": [asdict(account) for account in self.accounts],
            "defaults": [{"field": field, "why": why} for field, why in self.defaults],
            "missing": list(self.missing),
            "secrets": [
                {
                    "name": secret.name,
                    "field": secret.field,
                    "keys": dict(secret.keys),
                    "command": secret.command(self.namespace),
                }
                for secret in self.secrets
            ],
            "next": list(self.next_steps),
        }


def _grouped(accounts: Sequence[KeyReport]) -> Iterator[str]:
    """A line per key, or per reason where several keys have the same one and no field."""
    by_reason: dict[str, list[str]] = {}
    for account in accounts:
        if account.fields:
            why = f"  ({account.why})" if account.why else ""
            yield f"  {account.key} -> {', '.join(account.fields)}{why}"
        else:
            by_reason.setdefault(account.why, []).append(account.key)
    for why, keys in by_reason.items():
        yield f"  {', '.join(keys)}" + (f": {why}" if why else "")
