"""Maps topics to tables by a template such as ``lake.{topic}``.

A template may name ``{generation}`` as well, the object's. Characters that a table's name may not
contain become ``_``. Two topics that would share a table by that are refused; with a template
without ``{topic}`` all topics share one on purpose.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from landfall.api.spec import GroupSpec, TopicSpecs
from landfall.errors import Reason, Stalled
from landfall.ledger.task_results import LandedObject
from landfall.publish.context import Context

_TOPIC = "{topic}"
_GENERATION = "{generation}"
_TEMPLATE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_FOLDER = re.compile(r"((s3|abfss|gs|hdfs)://[^/\s]+|file://)/[^\s?#{}]+")
_REPLACED = re.compile(r"[^A-Za-z0-9_]")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass
class TableNames:
    """Names tables after topics.

    Attributes:
        context: has the published topics.
        template: of the names, with namespaces before dots.
        lower: whether names have lower case letters only.
    """

    context: Context
    template: str
    lower: bool = False
    _topics: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, context: Context, template: str, *, default: str = "", lower: bool = False
    ) -> "TableNames":
        """Check the template against the topics that the group names.

        Args:
            context: has the published topics.
            template: of the names.
            default: of a publisher without option ``table``.
            lower: whether names have lower case letters only.

        Raises:
            ValueError: it is invalid, or two topics would share a table.
        """
        if not _TEMPLATE.fullmatch(_filled(template, "topic", 1)):
            raise ValueError(
                "option table: expected namespaces and a name, such as lake.{topic}, of letters, "
                f"digits, _ and -, got {template!r}"
            )
        names = cls(context, template, lower)
        check_has_one_publisher(context, template, names._of_any, default=default)
        if two := names.collision(t for t in _named(context) if context.is_published(t)):
            raise ValueError(f"option table: {_shared(*two, names.of_topic(two[0], 1))}")
        return names

    def of_topic(self, topic: str, generation: int) -> str:
        """The name of the table of a topic's objects of a generation."""
        name = _filled(self.template, _REPLACED.sub("_", topic), generation)
        return name.lower() if self.lower else name

    def _of_any(self, template: str, topic: str) -> str:
        """The name of the table of a topic, or of a pattern of topics, by another template."""
        if _NAME.fullmatch(topic):
            return replace(self, template=template).of_topic(topic, 1)
        return _filled(template, topic, 1)

    def of_object(self, landed: LandedObject) -> str | None:
        """The name of an object's table; None if its topic is not published.

        Raises:
            Stalled: DESTINATION_CONFLICT, another topic has that table.
        """
        name = self.context.object_name(landed.key)
        if name is None:
            return None
        table = self.of_topic(name.topic, name.generation)
        first = self._topics.setdefault(table, name.topic)
        if first != name.topic and _TOPIC in self.template:
            raise Stalled(Reason.DESTINATION_CONFLICT, _shared(first, name.topic, table))
        return table

    def collision(self, topics: Iterable[str]) -> tuple[str, str] | None:
        """Two topics that would share a table; None if no two do."""
        found = dict[str, str]()
        for topic in topics if _TOPIC in self.template else ():
            first = found.setdefault(self.of_topic(topic, 1), topic)
            if first != topic:
                return first, topic
        return None


@dataclass(frozen=True)
class TableFolders:
    """Names tables by the URLs of their folders.

    Attributes:
        context: has the published topics.
        template: of the URLs, such as ``s3://lake/tables/{topic}``.
    """

    context: Context
    template: str

    @classmethod
    def of(cls, context: Context, template: str, specs: TopicSpecs) -> "TableFolders":
        """Check the template.

        Raises:
            ValueError: it is no URL of a folder, or landed objects would be in one so that VACUUM
                deletes them.
        """
        if not _FOLDER.fullmatch(_filled(template, "topic", 1)):
            raise ValueError(
                "option table: expected the URL of a folder, such as s3://lake/tables/{topic}, "
                f"got {template!r}"
            )
        folders = cls(context, template.rstrip("/"))
        check_has_one_publisher(
            context, template, lambda other, topic: _filled(other.rstrip("/"), topic, 1)
        )
        if below(context.url(""), folders.template) == _TOPIC:
            folders._check_routes(specs)
        elif below(context.url(""), f"{folders.template}/x"):
            raise ValueError(
                f"option table: a table must not be in output.url {context.url('')}, whose objects "
                "are Landfall's; take a folder or prefix next to it, or "
                f"{context.url(_TOPIC)} with a route that begins with _landed/"
            )
        topics = [topic for topic in _named(context) if context.is_published(topic)]
        for topic in topics if _TOPIC in folders.template else ("topic",):
            if why := folders._above(_filled(folders.template, topic, 1)):
                raise ValueError(f"option table: {why}")
        return folders

    def of_object(self, landed: LandedObject) -> str | None:
        """The URL of an object's table; None if its topic is not published."""
        name = self.context.object_name(landed.key)
        return _filled(self.template, name.topic, name.generation) if name else None

    def check_new(self, table: str) -> None:
        """Return if a new table may be created in a folder.

        Raises:
            Stalled: DESTINATION_CONFLICT, VACUUM would delete landed objects that are there.
            Retry: the store does not answer.
        """
        if why := self._above(table):
            raise Stalled(Reason.DESTINATION_CONFLICT, why)
        inside = below(self.context.url(""), table)
        for stat in self.context.store.list_after(f"{inside}/") if inside else ():
            first, _, rest = stat.key.removeprefix(f"{inside}/").partition("/")
            if _OF_A_FORMER_TABLE.fullmatch(first):
                continue
            if not rest or not HIDDEN.fullmatch(first):
                raise Stalled(
                    Reason.DESTINATION_CONFLICT,
                    f"table {table}: VACUUM would delete {self.context.url(stat.key)}, which is "
                    "in its folder, and in no folder with _ below it; publish to another table, or "
                    "delete it if another engine wrote it for an earlier table",
                )

    def _check_routes(self, specs: TopicSpecs) -> None:
        """Return if all objects of each topic land below a folder that VACUUM skips."""
        for _, spec in used_specs(self.context, specs) or specs.used():
            first = spec.route.pattern.partition("/")[0]
            if spec.route.topic_path is not None or not HIDDEN.fullmatch(first):
                raise ValueError(
                    "option table: a table in the folder of its topic needs a route "
                    "without topicPath, whose pattern begins with a folder such as _landed/, "
                    "because VACUUM deletes what is in other folders; pattern is "
                    f"{spec.route.pattern}"
                )

    def _above(self, table: str) -> str:
        """Why a table may not be in a folder above the output root; "" if it may."""
        inside = below(table, self.context.url(""))
        if inside is None or HIDDEN.fullmatch(inside.partition("/")[0]):
            return ""
        return (
            f"output.url {self.context.url('')} is in the folder of table {table}, so that VACUUM "
            "would delete landed objects and the ledger; take another folder, or land in one "
            f"that begins with _, such as {table}/_landed"
        )


def check_parquet(context: Context, specs: TopicSpecs) -> None:
    """Return if every topic that is surely published lands as Parquet.

    Raises:
        ValueError: one does not; the message names the field.
    """
    for path, spec in used_specs(context, specs):
        if spec.output.format != "Parquet":
            where = f"{path}.output.format is" if path else "output.format of a topic is"
            raise ValueError(
                f"type: {context.entry.type} tables are made of Parquet files, but {where} "
                f"{spec.output.format}"
            )


def used_specs(context: Context, specs: TopicSpecs) -> Sequence[tuple[str, GroupSpec]]:
    """The specs of the topics that are surely published, with the paths of the fields, if known."""
    topics = [topic for topic in _named(context) if context.is_published(topic)]
    if not topics and not context.entry.topics:
        return [*specs.used()]
    return [("", specs.for_topic(topic)) for topic in topics]


def _filled(template: str, topic: str, generation: int) -> str:
    return template.replace(_TOPIC, topic).replace(_GENERATION, str(generation))


def destination(context: Context, *parts: str) -> str:
    """Return the identity of a destination: its parts, and the topics published to it."""
    entry = context.entry
    named = json.dumps([entry.type, *parts, *(f"topic {topic}" for topic in entry.topics)])
    return hashlib.sha256(named.encode()).hexdigest()


def _named(context: Context) -> tuple[str, ...]:
    return context.group.spec.source.topics


def check_has_one_publisher(
    context: Context,
    template: str,
    table: Callable[[str, str], str],
    *,
    default: str = "",
    place: Sequence[str] = ("catalog",),
) -> None:
    """Return if no other publisher of the group fills the same tables.

    A table has one position for a lane: what one publisher has passed, another one would never add.
    In BigQuery, each has a position of its own, and rows would be there twice.

    Args:
        context: of the publisher.
        template: of its tables.
        table: returns the name of a topic's table, by a template.
        default: of a publisher without option ``table``.
        place: the other options of where tables are.

    Raises:
        ValueError: one does, as far as names of topics show.
    """
    own = context.entry
    for other in context.group.spec.publish:
        has_place = all(other.options.get(name) == own.options.get(name) for name in place)
        if other.name == own.name or other.type != own.type or not has_place:
            continue
        theirs = str(other.options.get("table", default))
        is_same = table(theirs, _TOPIC) == table(template, _TOPIC)
        topics = {*_named(context), *own.topics, *other.topics}  # most of the patterns are names
        tables = {table(template, topic) for topic in topics if own.selects(topic)}
        if (is_same and (_TOPIC not in template or not (own.topics and other.topics))) or (
            not tables.isdisjoint(table(theirs, name) for name in topics if other.selects(name))
        ):
            raise ValueError(
                f"option table: publisher {other.name} fills the same table, so that rows would be "
                "lost or there twice: let one publisher have all its topics"
            )


def _shared(first: str, second: str, table: str) -> str:
    return (
        f"topics {first} and {second} would share table {table}; publish them by two publishers, "
        "each with a table of its own"
    )


# Names of landed files in a Delta table, and the folders that a table may have.
#
# A file outside of the table's folder is named by its absolute URI, which some engines cannot read.
# One inside of it is named by its path relative to the folder, which all can. But VACUUM deletes
# files that are in the folder and not in the table: objects that are yet to be published, that were
# left out, or that another engine compacted. It skips folders whose names begin with ``_``, so
# landed objects may be in the table's folder below such a folder only (ADR 0049).

HIDDEN = re.compile(r"_(?!delta_|change_data)[A-Za-z0-9_.-]+")
"""Names of folders that VACUUM skips. Exceptions begin in the same way: Delta's own folder, and the
folders of partition columns, which have ``=`` in their names.
"""
_OF_A_FORMER_TABLE = re.compile(r"deletion_vector_[0-9a-f-]+\.bin")
"""Names of files that VACUUM may delete: no landed object has such a name in a table's folder."""
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class InTheWayOfVacuum(Exception):  # noqa: N818  # the name is the state
    """Landed objects are in the folder of a table, and VACUUM would delete them."""


def path_in_table(table: str, url: str) -> str:
    """The path by which a table names a file.

    Raises:
        InTheWayOfVacuum: the file is in the table's folder, and in no folder with ``_`` below it.
    """
    inside = below(table, url)
    if inside is None:
        return url
    first, _, rest = inside.partition("/")
    if not rest or not HIDDEN.fullmatch(first):
        raise InTheWayOfVacuum(
            f"{url} is in the folder of table {table}, where VACUUM deletes it unless its first "
            "folder there begins with _, such as _landed"
        )
    return inside


def absolute(table: str, path: str) -> str:
    """The URI of a file that a table names by this path."""
    return path if _ABSOLUTE.match(path) else f"{table.rstrip('/')}/{path}"


def below(folder: str, url: str) -> str | None:
    """Return the part of a URL below a folder; None if it is not in it."""
    above, inside = f"{_normal(folder)}/", _normal(url)
    return inside.removeprefix(above) if inside.startswith(above) else None


def _normal(url: str) -> str:
    """Normalize a URL: without its last slash, ``s3a`` and ``//``."""
    scheme, has_scheme, rest = url.partition("://")
    if not has_scheme:
        scheme, rest = "file", url.removeprefix("file:")
    if scheme == "file":
        return f"file:/{posixpath.normpath(rest).lstrip('/')}"
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest.rstrip('/')}"
