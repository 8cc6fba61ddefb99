"""The options of publishers whose tables may be keyed."""

from typing import Literal

from landfall.api.column_names import DELETED, declared_columns
from landfall.api.spec import TopicSpecs
from landfall.publish.choice import ChoiceOptions
from landfall.publish.context import Context
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.table_names import used_specs


class KeyedOptions(ChoiceOptions, kw_only=True):
    """The options that choose the rows of a table; docs/publishers/keyed.md describes them."""

    mode: Literal["Append", "Keyed"] = "Append"
    key: list[str] = []  # noqa: RUF012  # copied by msgspec
    order: str | None = None
    deleted: str | None = None

    def keys(self, table: str, context: Context, specs: TopicSpecs) -> KeySettings | None:
        """Return the options of keys; None if tables are not keyed.

        Args:
            table: the pattern of the tables' names.
            context: of the publisher.
            specs: of the group's topics.

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
        deleted = self.deleted or DELETED
        _check_deletions(deleted, context, specs)
        return KeySettings(tuple(self.key), self.order, deleted)


def _check_deletions(deleted: str, context: Context, specs: TopicSpecs) -> None:
    """Return if landed changes surely have the column by which deleted rows are known.

    Raises:
        ValueError: they do not, so deleted rows would stay in the table.
    """
    for _, spec in used_specs(context, specs):
        columns = declared_columns(spec)
        known = {*columns, *(header.name for header in spec.decode.header_columns)}
        if spec.decode.envelope and columns and deleted not in known:
            raise ValueError(
                f"option deleted: no column {deleted} is declared, so rows that were deleted would "
                f"stay in the table; declare {{name: {deleted}, type: Boolean, field: {DELETED}}}"
            )
