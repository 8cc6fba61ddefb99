"""Maps an object to its table and partition: a function of its key alone. Pure.

A table's name comes from a template; its values are in lower case, with an underscore for each
character that a table's name cannot have. Partitions are folders ``name=value``, and the router has
escaped the value (``landfall.pipeline.route``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

from landfall.api.spec import GroupSpec
from landfall.ledger.names.object_names import ObjectName
from landfall.pipeline.route.pattern import PatternInput, parse_pattern, parse_route
from landfall.pipeline.timezones import EPOCH
from landfall.publish.catalog import TableName, Values

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")
"""Names that a metastore takes: MetaStoreUtils.validateName in Hive, and the columns of its own
database."""
_TOPIC, _FOLDER = "topic", "folder:"


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The table and partition of an object.

    Attributes:
        table: the table.
        folder: of the table, relative to the output root.
        keys: names of the partition's folders, in order, in lower case.
        values: the values after them.
        directory: of the partition, relative to the output root.
    """

    table: TableName
    folder: str
    keys: tuple[str, ...]
    values: Values
    directory: str


@dataclass(frozen=True)
class TableNaming:
    """Names of tables.

    Attributes:
        database: template of the database's name.
        table: template of the table's name.
        tables: names of tables by topic, instead of the template.
    """

    database: str
    table: str
    tables: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Return if the templates make names.

        Raises:
            ValueError: they do not; the message begins with the option.
        """
        for option, template in self._templates():
            for placeholder in _PLACEHOLDER.findall(template):
                if placeholder != _TOPIC and not placeholder.startswith(_FOLDER):
                    raise ValueError(
                        f"option {option}: unknown placeholder {{{placeholder}}} in {template!r}; "
                        "there are {topic} and {folder:NAME}, a folder of route.topicPath"
                    )
            if not _NAME.fullmatch(_PLACEHOLDER.sub("x", template)):
                raise ValueError(
                    f"option {option}: {template!r} is no name of letters, digits and underscores"
                )

    def check_route(self, spec: GroupSpec) -> None:
        """Return if each folder of a route is one of a partition, and no two share a table.

        Raises:
            ValueError: they are not; the message begins with the option or the field.
        """
        for folder in _sample(spec.route.pattern).split("/"):
            if not re.fullmatch(r"\w+=.*", folder, re.ASCII):
                raise ValueError(
                    f"route.pattern {spec.route.pattern!r} has a folder that is no partition of a "
                    f"table: {folder!r} is not NAME=VALUE, as in dt={{date}}/hr={{hour}}"
                )
        named = {p.removeprefix(_FOLDER) for p in self._placeholders()}
        for folder in _destination(spec):
            if folder.partition("=")[0] not in named:
                example = f"{{folder:{folder.partition('=')[0]}}}_{{topic}}"
                raise ValueError(
                    "option table: topics of several destinations would share a table; name each "
                    f"folder of route.topicPath, as in {example}"
                )

    def keys(self, spec: GroupSpec) -> tuple[str, ...]:
        """The keys of the partitions of a route, in order, in lower case."""
        folders = _sample(spec.route.pattern).split("/")
        return tuple(folder.partition("=")[0].lower() for folder in folders)

    def place(self, name: ObjectName, keys: tuple[str, ...]) -> TablePlace:
        """Return the table and partition of an object.

        Args:
            name: the parts of its key.
            keys: of the table's partitions.

        Raises:
            ValueError: its folders are no partition of the table; the message has the reason.
        """
        pairs = [folder.partition("=") for folder in name.output_partition.split("/")]
        found = tuple(key.lower() for key, equals, _ in pairs if equals)
        if found != keys or len(pairs) != len(keys):
            expected = "/".join(f"{key}=…" for key in keys)
            raise ValueError(f"{name.output_partition} is not {expected}")
        above = f"{name.destination}/" if name.destination else ""
        return TablePlace(
            table=self.name_of(name),
            folder=f"{above}{name.topic}",
            keys=keys,
            values=tuple(unquote(value) for _, _, value in pairs),
            directory=f"{above}{name.topic}/{name.output_partition}",
        )

    def name_of(self, name: ObjectName) -> TableName:
        """The name of an object's table."""
        folders = dict(part.split("=", 1) for part in name.destination.split("/") if part)

        def put(match: re.Match[str]) -> str:
            wanted = match[1]
            value = name.topic if wanted == _TOPIC else folders.get(wanted[len(_FOLDER) :], "")
            return re.sub(r"[^a-z0-9_]", "_", unquote(value).lower())

        table = self.tables.get(name.topic, self.table)
        return TableName(
            _PLACEHOLDER.sub(put, self.database).lower(), _PLACEHOLDER.sub(put, table).lower()
        )

    def _templates(self) -> Iterator[tuple[str, str]]:
        yield "database", self.database
        yield "table", self.table
        yield from ((f"tables.{topic}", template) for topic, template in self.tables.items())

    def _placeholders(self) -> Iterator[str]:
        for template in (self.database, self.table):
            yield from _PLACEHOLDER.findall(template)


@lru_cache(1000)
def _sample(pattern: str) -> str:
    parsed = parse_pattern(pattern)
    return parsed.render(PatternInput("topic", 0, EPOCH, ("value",) * len(parsed.fields)))


def _destination(spec: GroupSpec) -> list[str]:
    """The folders of a destination, as they may be."""
    if spec.route.topic_path is None:
        return []
    parsed = parse_route(spec.route.pattern, spec.route.topic_path)
    routed = parsed.render(PatternInput("topic", 0, EPOCH, ("value",) * len(parsed.fields)))
    return [part for part in routed.split("//")[0].split("/") if part]
