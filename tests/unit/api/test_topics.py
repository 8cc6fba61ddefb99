"""``spec.topics``: what holds for a topic, and what is refused."""

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.pod_spec import Model
from landfall.api.spec import (
    Codec,
    ConsumerGroup,
    Decode,
    Output,
    Route,
    TimeUnit,
    TopicOverride,
    TopicSpecs,
    parse_group,
)
from landfall.errors import Stalled
from tests.support.kubernetes.groups import document

Json = dict[str, Any]

GROUP: Json = {
    "decode": {
        "format": "Delimited",
        "options": {"columns": ["a", "at"], "separator": "|"},
        "timestamp": {"field": "at", "missing": "Epoch"},
        "columns": [{"name": "a", "type": "Int64"}],
    },
    "transforms": [{"use": "LogId"}],
    "route": {"pattern": "d={date}", "timezone": "Europe/Berlin"},
}


def group(*entries: Mapping[str, Any], **spec: Any) -> ConsumerGroup:
    resource = document(**(GROUP | spec))
    resource["spec"]["source"]["kafka"] = {
        "bootstrapServers": "kafka:9092",
        "topicPattern": "^app[.].*$",
    }
    resource["spec"]["topics"] = list(entries)
    return parse_group(resource)


def test_the_first_entry_that_matches_the_whole_name_applies() -> None:
    specs = TopicSpecs.of(
        group(
            {"pattern": "app.a", "route": {"pattern": "one"}},
            {"pattern": "app.a.*", "route": {"pattern": "two"}},
        ).spec
    )

    found = {t: specs.for_topic(t).route.pattern for t in ("app.a", "app.ab", "app.b", "my.app.a")}

    assert found == {"app.a": "one", "app.ab": "two", "app.b": "d={date}", "my.app.a": "d={date}"}


def test_an_entry_replaces_field_by_field() -> None:
    spec = group(
        {
            "pattern": ".*",
            "decode": {"timestamp": {"unit": "Seconds"}, "options": {"separator": ";"}},
            "route": {"timezone": "UTC"},
            "output": {"codec": "Gzip", "rotate": {"maxRecords": 5}},
        },
        output={"url": "s3://logs/x", "format": "Json", "rotate": {"maxObjectBytes": "1Mi"}},
    ).spec

    found = TopicSpecs.of(spec).for_topic("app.x")

    assert found.decode.timestamp is not None
    assert (found.decode.timestamp.field, found.decode.timestamp.unit) == ("at", TimeUnit.SECONDS)
    assert found.decode.options == {"columns": ["a", "at"], "separator": ";"}
    assert (found.route.pattern, found.route.timezone) == ("d={date}", "UTC")
    assert (found.output.codec, found.output.url) == (Codec.GZIP, "s3://logs/x")
    assert (found.output.rotate.max_records, found.output.rotate.max_object_bytes) == (5, 2**20)
    assert (found.transforms, found.decode.columns) == (spec.transforms, spec.decode.columns)
    assert (found.source, found.topics) == (spec.source, ())


def test_options_belong_to_a_format_and_lists_are_replaced() -> None:
    spec = group(
        {
            "pattern": "app.json",
            "decode": {"format": "Json", "columns": [{"name": "b", "type": "String"}]},
            "transforms": [],
        }
    ).spec

    found = TopicSpecs.of(spec).for_topic("app.json")

    assert found.decode.options == {}
    assert [column.name for column in found.decode.columns] == ["b"]
    assert found.transforms == ()


def test_options_of_keys_belong_to_the_format_of_keys() -> None:
    of_group = {"format": "Delimited", "options": {"columns": ["k"]}}
    spec = group(
        {"pattern": "app.same", "decode": {"key": {"options": {"separator": ";"}}}},
        {"pattern": "app.json", "decode": {"key": {"format": "Json"}}},
        decode=GROUP["decode"] | {"key": of_group},
    ).spec

    found = [TopicSpecs.of(spec).for_topic(f"app.{name}").decode for name in ("same", "json")]

    assert [decode.key and decode.key.options for decode in found] == [
        {"columns": ["k"], "separator": ";"},
        {},
    ]
    assert {decode.options["separator"] for decode in found} == {"|"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"decode": {"format": "Jsn"}}, "decode.format: must be Raw, Json, "),
        (
            {"decode": {"timestamp": {"unit": "Custom"}}},
            "decode.timestamp: unit Custom needs a format, and only Custom has one",
        ),
        ({"decode": {"columns": [{"name": "x"}]}}, "decode.columns[0].type: is missing"),
        ({"route": {"pattern": "{when}"}}, "route.pattern: unknown placeholder '{when}'"),
        ({"output": {"url": "s3://other"}}, "output.url: cannot differ between topics: all obj"),
        ({"output": {"s3": {}}}, "output.s3: cannot differ between topics: all objects and"),
        ({"output": {"azure": {}}}, "output.azure: cannot differ between topics: all objects and"),
        ({"output": {"gcs": {}}}, "output.gcs: cannot differ between topics: all objects and"),
        ({"output": {"hdfs": {}}}, "output.hdfs: cannot differ between topics: all objects and"),
        ({"uploadPolicy": {"maxAge": "1m"}}, "uploadPolicy: topics have upload policies of their "),
        ({"badRecords": {}}, "badRecords: topics have limits of their own in spec.badRecords."),
        ({"generation": 2}, "generation: cannot differ between topics: the group has one"),
        ({"outptu": {}}, "outptu: unknown field, did you mean output?"),
        ({"pattern": "("}, "pattern: not a regular expression: '('"),
        ({"transforms": [{"use": "LogId"}] * 31}, "transforms: must have at most 30 items, not 31"),
    ],
)
def test_an_error_names_the_field_of_the_entry(entry: Json, message: str) -> None:
    with pytest.raises(Stalled) as caught:
        group({"pattern": "a"}, {"pattern": "b"}, {"pattern": "c"} | entry)

    assert str(caught.value).startswith(f"spec.topics[2].{message}")


def test_a_section_of_an_entry_has_every_field_of_the_groups() -> None:
    left_out = {"url", "store", "s3", "azure", "gcs", "hdfs", "existingObjects"}
    properties = TopicOverride.model_json_schema()["$defs"]

    for kind in (Decode, Route, Output):
        fields = set(kind.model_json_schema()["properties"]) - left_out
        assert set(properties[f"Topic{kind.__name__}"]["properties"]) == fields


def test_nothing_in_an_entry_has_a_default() -> None:
    entry = TopicOverride.model_validate(
        {"pattern": "a", "decode": {"timestamp": {}}, "route": {}, "output": {"rotate": {}}}
    )

    def values(model: Model) -> list[object]:
        fields = (getattr(model, name) for name in type(model).model_fields)
        return [
            v for field in fields for v in (values(field) if isinstance(field, Model) else [field])
        ]

    assert set(map(str, values(entry))) == {"a", "None"}


def test_a_group_with_entries_can_be_sent_to_a_worker() -> None:
    made = group({"pattern": "a", "decode": {"timestamp": {"unit": "Seconds"}}})

    assert pickle.loads(pickle.dumps(made)) == made  # its own bytes


@pytest.mark.parametrize(
    ("patterns", "topics", "used"),
    [
        (["a", "b"], ["a", "b"], ["spec.topics[0]", "spec.topics[1]"]),
        (["a"], ["a", "b"], ["spec", "spec.topics[0]"]),
        (["a", ".*"], [], ["spec.topics[0]", "spec.topics[1]"]),
        (["a"], [], ["spec", "spec.topics[0]"]),
        ([], ["a"], ["spec"]),
    ],
)
def test_the_groups_own_fields_count_if_a_topic_may_have_them(
    patterns: list[str], topics: list[str], used: list[str]
) -> None:
    resource = document()
    kafka: Json = {"topics": topics} if topics else {"topicPattern": ".*"}
    resource["spec"]["source"]["kafka"] = {"bootstrapServers": "kafka:9092"} | kafka
    resource["spec"]["topics"] = [{"pattern": pattern} for pattern in patterns]

    specs = TopicSpecs.of(parse_group(resource).spec)

    assert [path for path, _ in specs.used()] == used


ENTRIES = st.fixed_dictionaries(
    {"pattern": st.sampled_from(["app.a", "app.[ab]", ".*"])},
    optional={
        "decode": st.fixed_dictionaries(
            {},
            optional={
                "timestamp": st.fixed_dictionaries(
                    {},
                    optional={
                        "field": st.sampled_from(["x", "at"]),
                        "unit": st.sampled_from(["Auto", "Seconds"]),
                        "timezone": st.sampled_from(["UTC", "Asia/Tokyo"]),
                        "missing": st.sampled_from(["DeadLetter", "Epoch"]),
                    },
                ),
                "columns": st.just([{"name": "c", "type": "Json"}]) | st.just([]),
            },
        ),
        "transforms": st.sampled_from([[], [{"use": "Select", "options": {"fields": ["c"]}}]]),
        "route": st.fixed_dictionaries(
            {},
            optional={
                "pattern": st.sampled_from(["dt={date}", "x"]),
                "timezone": st.sampled_from(["UTC", "Asia/Tokyo"]),
            },
        ),
        "output": st.fixed_dictionaries(
            {}, optional={"rotate": st.just({"maxRecords": 7}), "codec": st.just("Zstd")}
        ),
    },
)


@given(entries=st.lists(ENTRIES, max_size=3), topic=st.sampled_from(["app.a", "app.b", "app.c"]))
def test_every_value_is_that_of_the_first_matching_entry_or_of_the_group(
    entries: list[Json], topic: str
) -> None:
    made = group(*entries, output={"url": "s3://logs/x", "format": "Json"})
    matches = {"app.a": {"app.a", "app.[ab]", ".*"}, "app.b": {"app.[ab]", ".*"}, "app.c": {".*"}}
    entry = next((e for e in entries if e["pattern"] in matches[topic]), {})

    found = TopicSpecs.of(made.spec).for_topic(topic)

    def dumped(spec: Any) -> Json:
        result: Json = spec.model_dump(mode="json", by_alias=True, exclude={"topics"})
        return result

    expected = dumped(made.spec)
    for section in ("decode", "route", "output"):
        for field, value in entry.get(section, {}).items():
            if isinstance(value, dict):
                expected[section][field] |= value
            else:
                expected[section][field] = value
    for column in expected["decode"]["columns"]:
        column.setdefault("field", None)
        column.setdefault("nullable", True)
    if "transforms" in entry:
        expected["transforms"] = entry["transforms"]
    assert dumped(found) == expected
