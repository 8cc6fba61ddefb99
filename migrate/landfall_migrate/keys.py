"""A table of the keys of a program: one row per key or family of keys. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from landfall_migrate.report import KeyOutcome, KeyReport
from landfall_migrate.settings import Setting, looks_secret

EMPTY = "empty, which is as if it were not set"
WITHOUT_EFFECT = "has no effect with the other settings"


@dataclass(frozen=True, slots=True)
class KeyRow:
    """The table row of a key.

    Attributes:
        key: the key, or a pattern with ``*`` for any text.
        fields: fields below ``spec`` that can replace it.
        default: what the program takes if the key is not given; None if it has no default.
        why: why it is not needed, if no section of the converter takes it.
        refusal: why it is not supported, and what to do instead, if no section takes it and its
            value is not one of ``off``.
        off: values, in lower case, with which it does nothing.
        is_secret: its value must never be printed.
        is_list: whether the program reads all of its values, and not only the first.
    """

    key: str
    fields: tuple[str, ...] = ()
    default: str | None = None
    why: str = ""
    refusal: str = ""
    off: tuple[str, ...] = ("false",)
    is_secret: bool = False
    is_list: bool = False

    def unclaimed(self, setting: Setting) -> KeyReport:
        """Return the outcome of a setting of this key that no section has taken."""
        key, place = setting.key, setting.place
        if not any(setting.values):
            return KeyReport(key, KeyOutcome.NOT_NEEDED, (), EMPTY, place)
        if self.refusal and setting.text.lower() not in self.off:
            return KeyReport(key, KeyOutcome.NOT_SUPPORTED, (), self.refusal, place)
        why = self.why or ("it is off" if self.refusal else WITHOUT_EFFECT)
        return KeyReport(key, KeyOutcome.NOT_NEEDED, (), why, place)


class Keys:
    """The table, by key."""

    def __init__(self, rows: Iterable[KeyRow]) -> None:
        """Take the rows; the first that matches a key is its row."""
        self.rows: Sequence[KeyRow] = tuple(rows)
        self._exact = {row.key: row for row in self.rows if "*" not in row.key}

    @property
    def defaults(self) -> Mapping[str, str]:
        """The program's defaults by key."""
        return {row.key: row.default for row in self.rows if row.default is not None}

    def find(self, key: str) -> KeyRow | None:
        """The row of a key."""
        if key in self._exact:
            return self._exact[key]
        return next((row for row in self.rows if fnmatchcase(key, row.key)), None)

    def is_secret(self, key: str) -> bool:
        """Return whether a key holds a secret: by its row, or without one by its name."""
        row = self.find(key)
        return row.is_secret if row else looks_secret(key)
