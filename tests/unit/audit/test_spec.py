"""The auditor reads the group file by itself, and reads what the writer reads.

Neither knows the other's models. So a field or a default that only the writer has changed since is
found here, and nowhere else.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from landfall.api import spec as writers
from landfall.api.group_file import expand
from landfall.api.spec.decode import EnvelopeFields
from landfall.api.spec.policies import BadRecords, Tuning
from landfall.api.spec.publish import PublisherEntry
from landfall.api.spec.roots import LettersPlace
from landfall.errors import Stalled
from landfall_audit import spec as auditors
from tests.support.kubernetes.groups import document
from tests.support.landing.processes import ROOT

MODELS: dict[type[auditors.SpecSection], type[BaseModel]] = {
    auditors.AuditedGroup: writers.ConsumerGroup,
    auditors.MetadataSection: writers.Metadata,
    auditors.AuditedSpec: writers.GroupSpec,
    auditors.SourceSection: writers.Source,
    auditors.KafkaSection: writers.Kafka,
    auditors.FeedSection: writers.Feed,
    auditors.LandedSection: writers.LandedSource,
    auditors.DecodeSection: writers.Decode,
    auditors.EnvelopeFieldsSection: EnvelopeFields,
    auditors.TimestampSection: writers.Timestamp,
    auditors.ColumnSection: writers.Column,
    auditors.ItemSection: writers.Item,
    auditors.RouteSection: writers.Route,
    auditors.OutputSection: writers.Output,
    auditors.LedgerSection: writers.Ledger,
    auditors.LettersSection: LettersPlace,
    auditors.BadRecordsSection: BadRecords,
    auditors.TuningSection: Tuning,
    auditors.S3Section: writers.S3Access,
    auditors.AssumeRoleSection: writers.AssumeRole,
    auditors.AzureSection: writers.AzureAccess,
    auditors.GcsSection: writers.GcsAccess,
    auditors.HdfsSection: writers.HdfsAccess,
    auditors.SecretSection: writers.SecretRef,
    auditors.PublisherSection: PublisherEntry,
}
DEFAULTS = [
    (own, name)
    for own in MODELS
    for name, field in own.model_fields.items()
    if not field.is_required() and field.default_factory is None
]


def plain(value: object) -> object:
    """A value without the classes of either side."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def within(own: object, others: object) -> object:
    """What of the writer's value the auditor knows: its models are smaller."""
    if isinstance(own, dict) and isinstance(others, dict):
        return {name: within(own[name], others[name]) for name in own}
    if isinstance(own, list) and isinstance(others, list) and len(own) == len(others):
        return [within(a, b) for a, b in zip(own, others, strict=True)]
    return others


def same(own: object, others: object) -> None:
    """Both read the same."""
    mine = plain(own)

    assert within(mine, plain(others)) == mine


@pytest.mark.parametrize(
    ("own", "name"), DEFAULTS, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_field_that_is_not_set_has_the_writers_default(
    own: type[auditors.SpecSection], name: str
) -> None:
    same(own.model_fields[name].default, MODELS[own].model_fields[name].default)


def test_every_model_is_compared() -> None:
    models = {each for each in vars(auditors).values() if _is_model(each)}
    bases = {
        auditors.SpecSection,
        auditors.StoreSection,
        auditors.LocationSection,
        auditors.RootSection,
        auditors.ValueTypeSection,
        auditors.TableSection,  # of options, which each type of publisher reads by itself
    }

    assert models - bases - MODELS.keys() == {auditors.RegistrySection, auditors.DecodeKeySection}


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, auditors.SpecSection)


WORDS: dict[type[StrEnum], type[StrEnum]] = {
    auditors.ColumnTypeName: writers.ColumnType,
    auditors.ColumnUnitName: writers.ColumnUnit,
    auditors.DecimalEncodingName: writers.DecimalEncoding,
    auditors.TimeUnitName: writers.TimeUnit,
    auditors.MissingTimestampPolicy: writers.MissingTimestamp,
    auditors.CodecName: writers.Codec,
}
"""The auditor's own list of each list of words of the writer."""


@pytest.mark.parametrize("own", WORDS, ids=[each.__name__ for each in WORDS])
def test_every_word_is_known(own: type[StrEnum]) -> None:
    assert [word.value for word in own] == [word.value for word in WORDS[own]]


# ------------------------------------------------------------------------------- documents


def groups_of_pages() -> Iterator[Any]:
    """All groups in the documentation and the examples that the writer accepts."""
    files = [*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "docs").rglob("*.md")]
    for file in files:
        text = file.read_text()
        blocks = re.findall(r"```yaml[^\n]*\n(.*?)```", text, re.DOTALL)
        for block in blocks if file.suffix == ".md" else [text]:
            yield from _groups(file, block)


def _groups(file: Path, block: str) -> Iterator[Any]:
    try:
        documents = [each for each in yaml.safe_load_all(block) if isinstance(each, dict)]
    except yaml.YAMLError:
        return
    for each in documents:
        made = {"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup", **each}
        made.setdefault("metadata", {"name": "shop"})
        made = expand(made, {}, on_unset=lambda _: None)
        try:
            writers.parse_group(made)
        except Stalled:
            continue
        yield pytest.param(made, id=f"{file.relative_to(ROOT)}")


PAGES = list(groups_of_pages())


def compare(made: Any) -> None:
    """What both read in a document."""
    own, others = auditors.AuditedGroup.model_validate(made), writers.parse_group(made)
    own_topics = auditors.AuditedTopics.of(own.spec)
    others_topics = writers.TopicSpecs.of(others.spec)

    same(own.metadata, others.metadata)
    same(own_topics.group, others_topics.group)
    assert own.kafka_group_id == others.kafka_group_id
    assert [place.id for place in own.spec.bad_records.places] == [
        place.id for place in others.spec.bad_records.places
    ]
    assert [root.url for root in own.spec.roots] == [root.url for root in others.spec.roots]
    pairs = zip(own_topics.entries, others_topics.entries, strict=True)
    for (pattern, entry), (others_pattern, others_entry) in pairs:
        assert pattern == others_pattern
        same(entry, others_entry)
    for mine, theirs in [
        (own_topics.group, others_topics.group),
        *((a, b) for (_, a), (_, b) in zip(own_topics.entries, others_topics.entries, strict=True)),
    ]:
        for columns in ("payload_columns", "key_columns", "typed_headers"):
            same(getattr(mine.decode, columns)(), getattr(theirs.decode, columns)())


@pytest.mark.parametrize("made", PAGES)
def test_groups_of_the_documentation_are_read_alike(made: Any) -> None:
    compare(made)


def test_there_are_such_groups() -> None:
    assert len(PAGES) > 10


TIMES = st.fixed_dictionaries(
    {"field": st.sampled_from(["ts", "meta.ts", "c"])},
    optional={
        "source": st.sampled_from(["Value", "Key", "Header"]),
        "unit": st.sampled_from(["Auto", "Seconds", "Iso8601"]),
        "timezone": st.just("Europe/Berlin"),
        "missing": st.sampled_from(["Epoch", "KafkaTimestamp"]),
        "separator": st.sampled_from(["", "/"]),
    },
)
COLUMN = st.fixed_dictionaries(
    {"type": st.sampled_from(["String", "Int64", "Timestamp"])},
    optional={"field": st.sampled_from(["ts", "meta.ts", "c", "a.b"]), "nullable": st.booleans()},
)
STRUCT = st.builds(
    lambda inner: {"type": "Struct", "fields": [{"name": "ts", **inner}], "field": "meta"}, COLUMN
)
COLUMNS = st.lists(COLUMN | STRUCT, max_size=3).map(
    lambda columns: [{"name": f"c{i}", **each} for i, each in enumerate(columns)]
)
OPTIONS = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers() | st.booleans())
DECODE = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["Json", "Csv", "Raw"]),
        "timestamp": TIMES,
        "columns": COLUMNS,
        "options": OPTIONS,
        "headerColumns": COLUMNS.map(
            lambda columns: [c | {"name": f"h{c['name']}"} for c in columns]
        ),
        "registry": st.just({"urls": ["http://registry:8081"]}),
        "key": st.fixed_dictionaries(
            {"format": st.just("Json")},
            optional={
                "options": OPTIONS,
                "columns": COLUMNS.map(
                    lambda columns: [c | {"name": f"k{c['name']}"} for c in columns]
                ),
            },
        ),
    },
)
OUTPUT = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["Json", "Text", "Parquet"]),
        "codec": st.sampled_from(["None", "Gzip", "Zstd"]),
        "columns": st.sampled_from(["Declared", "FromSchema"]),
        "options": OPTIONS,
    },
)
ROUTE = st.fixed_dictionaries(
    {},
    optional={
        "pattern": st.sampled_from(["all", "hr={hour}"]),
        "timezone": st.just("Asia/Tokyo"),
        "topicPath": st.just("x={field:a}/{topic}"),
    },
)
SECTIONS: dict[str, st.SearchStrategy[Any]] = {
    "decode": DECODE,
    "output": OUTPUT,
    "route": ROUTE,
    "transforms": st.sampled_from([[], [{"use": "Filter", "options": {"where": "a"}}]]),
}
ENTRY = st.fixed_dictionaries(
    {"pattern": st.sampled_from(["a.*", "b", ".*"])},
    optional={name: section | st.none() for name, section in SECTIONS.items()},
)


@pytest.mark.slow
@given(
    sections=st.fixed_dictionaries({}, optional=SECTIONS),
    entries=st.lists(ENTRY, max_size=3),
    place=st.sampled_from(["", "s3://letters/x/_landfall/shop/side/7", "gs://letters"]),
    timeout=st.sampled_from(["1m30s", "90s", "1500ms"]),
)
def test_random_documents_are_read_alike(
    sections: dict[str, Any], entries: list[Any], place: str, timeout: str
) -> None:
    made = document(topics=entries, tuning={"readTimeout": timeout})
    for name, section in sections.items():
        own = made["spec"].get(name)
        made["spec"][name] = {**own, **section} if isinstance(own, dict) else section
    if place:
        made["spec"]["badRecords"] = {"url": place, "s3": {"endpoint": "http://s3:9000"}}
    try:
        writers.parse_group(made)
    except Stalled:
        return  # the auditor does not judge a spec

    compare(made)


def test_what_a_kind_of_source_needs_is_required() -> None:
    made = document()
    made["spec"]["source"] = {}

    with pytest.raises(ValueError, match="exactly one of kafka, files and landed"):
        auditors.AuditedGroup.model_validate(made)
