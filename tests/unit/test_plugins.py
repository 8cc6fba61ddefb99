"""The documented example plug-ins, found by their import paths."""

from collections.abc import Mapping
from textwrap import dedent

import pyarrow.compute as pc

from landfall.api.spec import parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline import decoders
from landfall.pipeline.records import filled
from landfall.task.partitioning import BadRecord, PartitionedChunk, Partitioner

GROUP = {
    "apiVersion": "landfall.dev/v1alpha1",
    "kind": "ConsumerGroup",
    "metadata": {"name": "logs"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "localhost:9092", "topics": ["logs"]}},
        "decode": {
            "format": "examples.plugins.logfmt:Logfmt",
            "timestamp": {"field": "at"},
            "options": {"lower": True},
        },
        "transforms": [{"use": "examples.plugins.levels:Levels", "options": {"least": "info"}}],
        "route": {"pattern": "dt={date}/urgent={field:urgent}"},
        "output": {"url": "file:///tmp/logs", "format": "Json"},
    },
}


def partition(*values: bytes | None) -> PartitionedChunk:
    return Partitioner.of(parse_group(GROUP).spec).partition(
        filled(TopicPartition("logs", 0), range(len(values)), values)
    )


def test_the_example_plug_ins_decode_enrich_and_filter() -> None:
    got = partition(
        b"nothing",
        b'level=info At=2026-11-21T04:00:00Z msg="it \\"works\\""',
        b"level=debug at=2026-11-21T04:00:00Z",
        b"level=loud at=2026-11-21T04:00:00Z",
        b"level=error at=2026-11-21T04:00:00Z",
        b"level=info at=soon",
        b"\xff",
    )

    assert [(partition, rows.num_rows) for partition, rows in got.outputs] == [
        ("dt=2026-11-21/urgent=false", 1),
        ("dt=2026-11-21/urgent=true", 1),
    ]
    assert got.filtered == 1
    assert got.bad == (
        BadRecord(0, "decode", "logfmt: no key=value"),
        BadRecord(3, "transform", "no level: 'loud'"),
        BadRecord(5, "route", "timestamp: expected a number or ISO-8601 text, got 'soon'"),
        BadRecord(6, "decode", "not UTF-8: invalid start byte at byte 0"),
    )


def test_an_example_payload_becomes_json() -> None:
    got = partition(b'level=info At=2026-11-21T04:00:00Z msg="it \\"works\\""')

    ((_, rows),) = got.outputs
    assert (
        b'{"level":"info","at":"2026-11-21T04:00:00Z","msg":"it \\"works\\""}'
        in rows.column("value").to_pylist()
    )


def test_the_example_in_the_description_of_decoders_works() -> None:
    description = decoders.__doc__ or ""
    source = dedent(description.partition("::\n\n")[2])
    namespace = {"Mapping": Mapping, "pc": pc, **vars(decoders)}
    exec(compile(source, "example", "exec"), namespace)  # our own documentation
    wanted = decoders.Wanted(fields=(("length",),))

    got = (
        namespace["Length"]
        .of({}, wanted)
        .decode(filled(TopicPartition("logs", 0), [7, 8, 9], [b"abc", b"", None]))
    )

    assert got.fields == {("length",): [3, None]}
    assert (got.bad.rows.tolist(), got.bad.errors) == ([1], ["empty payload"])
