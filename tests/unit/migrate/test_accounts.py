"""Whatever the input: each key is accounted for once, no secret is printed, the group is one."""

import json
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall import registry
from landfall.api.group_text import as_yaml
from landfall.api.spec import parse_group
from landfall.errors import Stalled
from landfall_migrate import connect, document, secor
from landfall_migrate.connect import ConnectInput
from landfall_migrate.connect import keys as connect_keys
from landfall_migrate.draft import Draft
from landfall_migrate.keys import WITHOUT_EFFECT, Keys
from landfall_migrate.properties import PropertyLine
from landfall_migrate.secor import GroupChoices
from landfall_migrate.secor import keys as secor_keys
from landfall_migrate.secor.files import EXTENSIONS, FORMATS
from landfall_migrate.secor.records import PARSERS
from landfall_migrate.settings import ProgramSettings, Variables, resolved
from tests.support.examples import share

SECRET = "hush-hush-"
CLASSES = (
    *(f"com.pinterest.secor.parser.{name}" for name in PARSERS),
    *(f"com.pinterest.secor.io.impl.{name}FileReaderWriterFactory" for name in FORMATS),
    *(f"org.apache.hadoop.io.compress.{name}" for name in EXTENSIONS),
    *("com.pinterest.secor.uploader.GsUploadManager", "own.Uploader", "own.Parser"),
    *("org.apache.kafka.connect.json.JsonConverter", "io.confluent.connect.avro.AvroConverter"),
    *("a.ParquetFormat", "a.JsonFormat", "a.AvroFormat", "a.ByteArrayFormat", "a.StringConverter"),
    *("p.FieldPartitioner", "p.TimeBasedPartitioner", "p.DailyPartitioner"),
)
VALUES = st.one_of(
    st.sampled_from(CLASSES),
    st.sampled_from(["", "true", "false", "0", "1", "-1", "3600", "900000", "*", "a,b", "ts.at"]),
    st.sampled_from(
        ["KMS", "S3", "GS", "Azure", "Swift", "customer", "http://h:1", "kafka", "{x}"]
    ),
    st.sampled_from(["yyyy/MM/dd", "'dt='YYYY-MM-dd", "YYYY", "struct<a:int,b:map<int,int>>", "%"]),
    st.sampled_from(["RecordField", "Record", "Wallclock", "gzip", "zstd", "ignore", "BACKWARD"]),
    st.text(max_size=12),
)


def inputs(keys: Keys) -> st.SearchStrategy[dict[str, str]]:
    """Some of the program's keys with values, and keys that nobody knows."""
    known = [row.key.replace("*", "some.name") for row in keys.rows]
    own = st.from_regex(r"[a-z]{1,5}\.[a-z]{1,5}", fullmatch=True).map(lambda name: f"own.{name}")
    return st.dictionaries(st.one_of(st.sampled_from(known), own), VALUES, max_size=25)


def with_secrets(keys: Keys, values: Mapping[str, str]) -> dict[str, str]:
    """The values, with one that can be found again in each key that holds a secret."""
    numbered = enumerate(values.items())
    return {
        key: f"{SECRET}{number}" if keys.is_secret(key) else value
        for number, (key, value) in numbered
    }


def check(draft: Draft, keys: list[str]) -> None:
    made = document.accepted(draft)
    report = draft.report()
    text = as_yaml(made, draft.comments)
    printed = text + "\n".join(report.lines()) + json.dumps(report.as_json())

    assert [each.key for each in report.accounts] == keys
    assert SECRET not in printed
    assert yaml.safe_load(text) == made
    if draft.undecided:
        with pytest.raises(Stalled, match="SET-ME"):
            registry.check_spec(parse_group(made))
    else:
        parse_group(made)


@pytest.mark.slow
@given(inputs(secor_keys.KEYS), st.booleans())
@settings(max_examples=share(300), deadline=None)
def test_every_key_of_secor_is_accounted_for_once(values: dict[str, str], finalizer: bool) -> None:
    keys = secor_keys.KEYS
    lines = [
        PropertyLine(key, (value,), "a:1") for key, value in with_secrets(keys, values).items()
    ]
    given_ = resolved(lines, Variables({}, {}, keys.is_secret))

    draft = secor.convert(ProgramSettings(given_, keys.defaults), GroupChoices(finalizer=finalizer))

    check(draft, list(values))


@pytest.mark.slow
@given(inputs(connect_keys.KEYS))
@settings(max_examples=share(300), deadline=None)
def test_every_key_of_the_sink_is_accounted_for_once(values: dict[str, str]) -> None:
    lines = connect.config_of(with_secrets(connect_keys.KEYS, values), "a.json")

    draft = connect.convert(connect.settings_of(ConnectInput(lines)), GroupChoices())

    check(draft, list(values))
    # What decides what is landed is never said to decide nothing.
    assert [each.key for each in draft.report().accounts if each.why == WITHOUT_EFFECT] == []


JAAS = f'a.plain.PlainLoginModule required username="{SECRET}1" password="{SECRET}2";'
LEAKS = {
    "kafka.new.consumer.sasl.jaas.config": JAAS,
    "schema.registry.url": f"http://u:{SECRET}3@registry:8081",
    "aws.access.key": f"{SECRET}4",
    "aws.secret.key": f"{SECRET}5",
    "secor.s3.path": "x/${aws.secret.key}",
    "own.password": f"{SECRET}6",
    "own.text": "${own.password}",
    "monitoring.prefix": "${env:DB_PASSWORD}",
    "secor.azure.account.key": f"{SECRET}7",
    "aws.sse.customer.key": f"{SECRET}8",
    "aws.sse.type": "customer",
    "secor.message.parser.class": "com.pinterest.secor.parser.AvroMessageParser",
}


def test_a_secret_in_a_place_of_its_own_is_not_printed() -> None:
    keys = secor_keys.KEYS
    lines = [PropertyLine(key, (value,), "a:1") for key, value in LEAKS.items()]
    variables = Variables({"DB_PASSWORD": f"{SECRET}9"}, {}, keys.is_secret)
    draft = secor.convert(
        ProgramSettings(resolved(lines, variables), keys.defaults), GroupChoices()
    )

    check(draft, list(LEAKS))

    assert {each.name for each in draft.report().secrets} == {
        "secor-s3",
        "secor-kafka",
        "secor-registry",
    }
