"""The options of publishers whose tables may be keyed."""

from typing import Literal

from landfall.api.column_names import DELETED
from landfall.publish.choice import ChoiceOptions
from landfall.publish.keyed.rows import KeySettings


class KeyedOptions(ChoiceOptions, kw_only=True):
    """The options that choose the rows of a table; docs/publishers/keyed.md describes them."""

    mode: Literal["Append", "Keyed"] = "Append"
    key: list[str] = []  # noqa: RUF012  # copied by msgspec
    order: str | None = None
    deleted: str | None = None

    def keys(self, table: str) -> KeySettings | None:
        """Return the options of keys; None if tables are not keyed.

        Args:
            table: the pattern of the tables' names.

        Raises:
            ValueError: an option is missing, or is of no use.
        """
        if self.mode != "Keyed":
            for name in ("key", "order", "deleted"):
                if getattr(self, name):
                    raise ValueError(f"option {name}: is of tables with mode: Keyed")
            return None
        if not self.key or len({*self.key}) < len(self.key):
            raise ValueError("option key: expected the columns of a key, each once, such as [id]")
        if "{topic}" not in table:
            raise ValueError(
                "option table: a keyed table is of one topic, so its name has {topic} in it"
            )
        return KeySettings(tuple(self.key), self.order, self.deleted or DELETED)
