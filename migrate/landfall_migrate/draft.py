"""The group that is being made, and the outcome of each key so far."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from landfall.api.group_text import FieldPath
from landfall_migrate.keys import Keys
from landfall_migrate.report import KeyOutcome, KeyReport, MigrationReport, NeededSecret
from landfall_migrate.settings import ProgramSettings

SET_ME = "SET-ME"
"""A value that no group may have as a decoder, as a format, or in braces in its route."""


def path_of(name: str) -> FieldPath:
    """The steps of a field, such as ``decode.timestamp.field``."""
    return tuple(name.split("."))


@dataclass
class Draft:
    """Collects fields and accounts; ``unclaimed`` keys get theirs from the table at the end.

    Attributes:
        settings: the input.
        keys: the table of the program's keys.
        name: of the group.
        namespace: of the group; None for the default.
        undecided: values that are set once the parser has accepted the rest: with ``SET_ME``, it
            refuses the group until a user has decided.
    """

    settings: ProgramSettings
    keys: Keys
    name: str
    namespace: str | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    comments: dict[FieldPath, str] = field(default_factory=dict)
    origins: dict[FieldPath, tuple[str, ...]] = field(default_factory=dict)
    undecided: dict[FieldPath, object] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    _accounts: dict[str, KeyReport] = field(default_factory=dict)
    _secrets: dict[str, NeededSecret] = field(default_factory=dict)
    _topics: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(
        self, name: str | FieldPath, value: object, *keys: str, why: str = "", default: str = ""
    ) -> None:
        """Set a field from keys of the input, and mark those that are given as used.

        Args:
            name: the field below ``spec``.
            value: its value.
            keys: of the input.
            why: a remark on it.
            default: the program whose default it is, if none of the keys is given.
        """
        path = path_of(name) if isinstance(name, str) else name
        inner = self.spec
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
        given = tuple(key for key in keys if key in self.settings.given)
        self.origins[path] = given
        for key in given:
            self.take(key, ".".join(path), why)
        self.comments.pop(path, None)
        if not given and (why or default):
            self.comments[path] = why or default

    def take(self, key: str, name: str, why: str = "") -> None:
        """Record that a field takes a key, or that leaving the field out does."""
        earlier = self._accounts.get(key)
        if earlier and earlier.outcome is not KeyOutcome.TAKEN:
            return
        fields = dict.fromkeys((*(earlier.fields if earlier else ()), name))
        self._set(key, KeyOutcome.TAKEN, why or (earlier.why if earlier else ""), tuple(fields))

    def leave_open(self, name: str, why: str, value: object = None, meanwhile: object = "") -> None:
        """Leave a field to the user; until it is set, the group is refused.

        Args:
            name: the field below ``spec``.
            why: nothing decides it.
            value: that is refused; ``SET_ME`` if not given.
            meanwhile: a value by which the other fields can be checked.
        """
        path = path_of(name)
        if meanwhile:
            self.put(path, meanwhile)
        self.undecided[path] = SET_ME if value is None else value
        self.comments[path] = why

    def topic(self, topic: str, name: str, value: object, key: str, why: str = "") -> None:
        """Set a field for one topic; ``name`` is its path below the entry of ``spec.topics``."""
        inner = self._topics.setdefault(topic, {})
        *sections, last = path_of(name)
        for step in sections:
            inner = inner.setdefault(step, {})
        inner[last] = value
        path = ("topics", *path_of(name))
        self.origins[path] = (*self.origins.get(path, ()), key)
        self.take(key, ".".join(path), why)

    def refuse(self, key: str, why: str) -> None:
        """A key is not supported."""
        self._set(key, KeyOutcome.NOT_SUPPORTED, why)

    def refuse_given(self, keys: Iterable[str], why: str) -> None:
        """Report the given keys that no section has claimed as not supported.

        They go with another key that is not taken, so nothing is missing if they are not given.
        """
        for key in keys:
            if key in self.settings.given and not self.claimed(key):
                self.refuse(key, why)

    def drop(self, key: str, why: str) -> None:
        """A key is not needed."""
        self._set(key, KeyOutcome.NOT_NEEDED, why)

    def secret(self, suffix: str, field_: str, entries: Mapping[str, str], why: str = "") -> None:
        """Let a Secret hold the values of keys.

        Args:
            suffix: of the Secret's name.
            field_: the field that names it.
            entries: its keys, and the key of the input that each is the value of.
            why: a further remark.
        """
        name = f"{self.name}-{suffix}"
        earlier = self._secrets.get(field_)
        keys = {**(earlier.keys if earlier else {}), **entries}
        self._secrets[field_] = NeededSecret(name, field_, keys, frozenset({"key.json"}))
        self.put(field_, {"name": name})
        for key in entries.values():
            if key in self.settings.given:
                self._set(key, KeyOutcome.SECRET, why, (field_,))

    def claimed(self, key: str) -> bool:
        """Return whether a section has recorded an outcome for a key."""
        return key in self._accounts

    def remove(self, path: FieldPath, why: str) -> None:
        """Take a field away again; the keys that it came from are not supported."""
        for key in {key for field_path in self.under(path) for key in self.origins[field_path]}:
            self._set(key, KeyOutcome.NOT_SUPPORTED, why)
        for field_path in list(self.under(path)):
            del self.origins[field_path]
            self.comments.pop(field_path, None)
        if path[0] == "topics":
            self._topics.clear()
        _prune(self.spec, path)

    def value(self, path: FieldPath) -> object:
        """The value of a field; None if it is not set."""
        found: Any = self.spec
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return found

    def under(self, path: FieldPath) -> Iterator[FieldPath]:
        """The fields that were set at a path, below it or above it."""
        for field_path in self.origins:
            if field_path[: len(path)] == path or path[: len(field_path)] == field_path:
                yield field_path

    def close(self) -> dict[str, Any]:
        """The document, with the entries for topics."""
        if self._topics:
            entries = [{"pattern": topic, **own} for topic, own in self._topics.items()]
            self.spec["topics"] = entries
        at = {"namespace": self.namespace} if self.namespace else {}
        return {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": self.name, **at},
            "spec": self.spec,
        }

    def report(self) -> MigrationReport:
        """The report, with an account of every key of the input."""
        return MigrationReport(
            accounts=tuple(self._account(key) for key in self.settings.given),
            defaults=tuple(
                (".".join(field_path), why)
                for field_path, why in self.comments.items()
                if field_path not in self.undecided
            ),
            missing=tuple(self.missing),
            secrets=tuple(self._secrets.values()),
            next_steps=tuple(self.next_steps),
            namespace=self.namespace,
        )

    def _account(self, key: str) -> KeyReport:
        setting, row = self.settings.given[key], self.keys.find(key)
        claimed = self._accounts.get(key)
        if unread := self.settings.unread.get(key):
            return KeyReport(key, KeyOutcome.NOT_NEEDED, (), unread, setting.place)
        if setting.unresolved:
            names = ", ".join(f"${{{name}}}" for name in setting.unresolved)
            why = f"nothing defines {names}: give it with -D, or --env"
            return KeyReport(key, KeyOutcome.NOT_SUPPORTED, (), why, setting.place)
        by_variable = setting.is_secret and row is not None and not row.is_secret
        if by_variable and (claimed is None or claimed.outcome is KeyOutcome.TAKEN):
            why = "a variable in it is a secret, so it is not read"
            return KeyReport(key, KeyOutcome.NOT_SUPPORTED, (), why, setting.place)
        if claimed:
            count = 1 if row is None or row.is_list else len(setting.values)
            first = f"the first of {count} values, as the old program reads it"
            return claimed if count == 1 else replace(claimed, why=first)
        if row is None:
            why = "neither the program nor Landfall knows this key"
            return KeyReport(key, KeyOutcome.UNKNOWN, (), why, setting.place)
        return row.unclaimed(setting)

    def _set(self, key: str, outcome: KeyOutcome, why: str, fields: tuple[str, ...] = ()) -> None:
        setting = self.settings.given.get(key)
        if setting is None or key in self.settings.unread:
            if outcome is KeyOutcome.NOT_SUPPORTED:
                what = "not read" if setting else "not given"
                self.missing.append(f"{key} is {what}, and its default is not supported: {why}")
            return
        earlier = self._accounts.get(key)
        if earlier is None or earlier.outcome is not KeyOutcome.NOT_SUPPORTED:
            self._accounts[key] = KeyReport(key, outcome, fields, why, setting.place)


def _prune(section: dict[str, Any], path: FieldPath) -> None:
    """Take a field away, and sections that are empty without it."""
    name, *rest = path
    inner = section.get(name)
    if rest and isinstance(inner, dict):
        _prune(inner, tuple(rest))
    if not rest or not inner:
        section.pop(name, None)
