"""What a local run takes the API server takes, and a wrong word is refused with the right one."""

import pytest

from landfall.api.spec import parse_group
from landfall.api.words import did_you_mean
from landfall.errors import Stalled
from tests.support.kubernetes.groups import changed, document

REFUSED: list[tuple[str, object, str]] = [
    # field, what is written there, the message
    (
        "metadata.name",
        "2nd-clicks",
        (
            "metadata.name: must be at most 40 lowercase letters, digits and hyphens, "
            "start with a letter and not end with a hyphen, got '2nd-clicks'"
        ),
    ),
    (
        "spec.source.kafka.bootstrapServers",
        "localhost",
        (
            "spec.source.kafka.bootstrapServers: must be HOST:PORT, or several separated by "
            "commas, such as kafka-0:9092,kafka-1:9092, got 'localhost'"
        ),
    ),
    (
        "spec.output.codec",
        "gzip",
        (
            "spec.output.codec: must be 'None', 'Gzip', 'Zstd', 'Deflate' or 'Snappy', got 'gzip', "
            "did you mean Gzip?"
        ),
    ),
    (
        "spec.decode.format",
        "json",
        (
            "spec.decode.format: must be Raw, Json, Delimited, Regex, MessagePack, Csv, "
            "Thrift, Avro, Protobuf, JsonSchema, or package.module:Name for one of your own, "
            "got 'json', did you mean Json?"
        ),
    ),
    (
        "spec.output.format",
        "Sequencefile",
        (
            "spec.output.format: must be Text, Json, SequenceFile, Parquet, Orc, Avro, or "
            "package.module:Name for one of your own, got 'Sequencefile', did you mean "
            "SequenceFile?"
        ),
    ),
    ("spec.tuning.orphanAge", "30m", "spec.tuning.orphanAge: must be at least 1h, got '30m'"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_a_wrong_word_is_refused_with_the_right_one(path: str, value: object, message: str) -> None:
    with pytest.raises(Stalled) as refused:
        parse_group(changed(document(), path, value))

    assert str(refused.value) == message


@pytest.mark.parametrize("ratio", [0.001, "0.001", 0, 1])
def test_a_ratio_needs_no_quotes(ratio: object) -> None:
    group = parse_group(document(badRecords__maxRatio=ratio))

    assert group.spec.bad_records.max_ratio == float(str(ratio))


@pytest.mark.parametrize(
    "servers",
    ["localhost:9092", "a:1,b:2", "a:1, b:2", "[::1]:9092", "SASL_SSL://kafka.example:443"],
)
def test_servers_have_ports(servers: str) -> None:
    written = document(source__kafka__bootstrapServers=servers)

    assert parse_group(written).spec.source.kafka.bootstrap_servers == servers


@pytest.mark.parametrize(
    ("path", "value", "meant"),
    [
        ("spec.uploadPolicy.maxAge", "5min", "5m"),
        ("spec.uploadPolicy.maxAge", "2 hours", "2h"),
        ("spec.uploadPolicy.maxBytes", "256MB", "256M"),
        ("spec.uploadPolicy.maxBytes", "1GiB", "1Gi"),
        ("spec.uploadPolicy.maxBytes", "10kb", "10k"),
        ("spec.source.kafka.startingOffsets", "earliest", "Earliest"),
        ("spec.decode.format", "CSV", "Csv"),
    ],
)
def test_the_word_that_is_meant_is_suggested(path: str, value: str, meant: str) -> None:
    with pytest.raises(Stalled) as stalled:
        parse_group(document(**{path.removeprefix("spec.").replace(".", "__"): value}))

    assert f"did you mean {meant}?" in str(stalled.value)


def test_a_pattern_given_as_topics_names_the_other_field() -> None:
    with pytest.raises(Stalled, match=r"did you mean topicPattern\?"):
        parse_group(document(source__kafka__topics="app.*"))


def test_a_short_form_of_a_word_is_meant() -> None:
    assert did_you_mean("gz", ("None", "Gzip", "Zstd")) == ", did you mean Gzip?"
