"""``Mask``, ``Hash`` and ``LogId``, on columns and on JSON payloads."""

import hashlib
import hmac
import json
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.errors import Stalled
from landfall.pipeline.records import of_columns
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.hash import Hash
from tests.support.driver.transformed import TP, Group, apply, payloads, rejected, spec_error

SECRETS = Path(__file__).parents[3] / "support" / "secrets"
KEY = b"not-a-secret-only-for-tests"


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(SECRETS))


def values(use: str, options: dict[str, object], *given: object) -> list[object]:
    """What becomes of values, in JSON; and in a column if they are text."""
    steps = [{"use": use, "options": {"fields": ["x"], **options}}]
    rows = [{"x": value} for value in given]
    in_json = [json.loads(each or b"")["x"] for each in payloads(Group(steps).apply(*rows))]
    if all(value is None or isinstance(value, str) for value in given):
        columns = Group(steps, {"x": "String"}).apply(*rows).columns
        assert columns is not None
        assert columns.column("x").to_pylist() == in_json
    return in_json


@pytest.mark.parametrize(
    ("kind", "given", "masked"),
    [
        ("Text", "anything", "***"),
        ("Text", None, None),
        ("Text", 17, "***"),
        ("Text", {"a": 1}, "***"),
        ("Mail", "a.b@c.example", "***@c.example"),
        ("Mail", '"a@b"@c.example', "***@c.example"),
        ("Mail", "a@", "***"),
        ("Mail", "@b", "***"),
        ("Mail", "nobody", "***"),
        ("Ip", "203.0.113.200", "203.0.113.0"),
        ("Ip", "2001:db8:1:2:3::4", "2001:db8:1::"),
        ("Ip", "fe80::1%eth0", "fe80::"),
        ("Ip", "::ffff:203.0.113.200", "203.0.113.0"),
        ("Ip", "203.0.113.200:80", "***"),
        ("Ip", "", "***"),
    ],
)
def test_a_value_is_masked(kind: str, given: object, masked: object) -> None:
    assert values("Mask", {"kind": kind}, given) == [masked]


def test_a_mask_may_be_another_text() -> None:
    assert values("Mask", {"with": "?"}, "a", None) == ["?", None]


def test_a_hash_is_hmac_sha_256() -> None:
    got = values("Hash", {"secret": "mail-hash"}, "ä@example.com", None, "")

    # Python's other implementation, and RFC 4231's second vector for what is called by its name.
    assert got == [
        hmac.new(KEY, "ä@example.com".encode(), hashlib.sha256).hexdigest(),
        None,
        hmac.new(KEY, b"", hashlib.sha256).hexdigest(),
    ]
    rfc = hmac.digest(b"Jefe", b"what do ya want for nothing?", "sha256").hex()
    assert rfc == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


def test_a_number_is_hashed_as_it_is_written() -> None:
    (number, text) = values("Hash", {"secret": "mail-hash"}, 1.5, "1.5")

    assert number == text


def test_lower_case_joins_addresses() -> None:
    first, second = values("Hash", {"secret": "mail-hash", "lower": True}, "A@B.c", "a@b.C")

    assert first == second


def test_a_route_never_sees_what_was_hashed_or_masked() -> None:
    for columns in (None, {"mail": "String"}):
        for step in (
            {"use": "Hash", "options": {"fields": ["mail"], "secret": "mail-hash"}},
            {"use": "Mask", "options": {"fields": ["mail"], "kind": "Mail"}},
        ):
            group = Group([step], columns, {"route__pattern": "m={field:mail}"})

            ((partition, rows),) = group.partition({"mail": "ann@example.com"}).outputs

            assert "ann" not in partition
            assert b"ann" not in rows.column("value").to_pylist()[0]


def test_no_message_and_no_text_of_a_hash_shows_its_key() -> None:
    context = TransformContext(read_secret=lambda _: {"key": KEY.decode(), "short": "short-key"})
    step = Hash.of({"fields": ["x"], "secret": "s"}, context)

    with pytest.raises(ValueError, match="needs 'short', with at least 16 characters") as caught:
        Hash.of({"fields": ["x"], "secret": "s", "key": "short"}, context)

    assert "short-key" not in str(caught.value)
    assert KEY.decode() not in repr(step)


@pytest.mark.parametrize(
    ("use", "options", "message"),
    [
        ("Mask", {}, "missing required field `fields`"),
        ("Mask", {"fields": ["n"]}, "column n is int64; only a String is replaced"),
        ("Mask", {"fields": ["s"], "kind": "Name"}, "Name"),
        ("Hash", {"fields": ["s"]}, "missing required field `secret`"),
        (
            "Hash",
            {"fields": ["s"], "secret": "mail-hash", "key": "other"},
            "options.key: the Secret",
        ),
        ("Hash", {"fields": ["s"], "secret": "nowhere"}, "no secret 'nowhere'"),
        ("LogId", {"from": "Time"}, "Time"),
    ],
)
def test_a_wrong_option_is_refused(use: str, options: dict[str, object], message: str) -> None:
    assert message in spec_error(use, options, {"n": "Int64", "s": "String"})


def test_an_id_is_made_of_where_a_record_is() -> None:
    for columns in (None, {"n": "Int64"}):
        got = Group([{"use": "LogId", "options": {}}], columns).apply({"n": 1}, None, {"n": 2})

        assert payloads(got) == [
            b'{"n":1,"log_id":"clicks-3-100"}',
            None,
            b'{"n":2,"log_id":"clicks-3-102"}',
        ]


def test_an_id_is_made_of_the_key() -> None:
    group = Group([{"use": "LogId", "options": {"name": "id", "from": "Key"}}])
    given = of_columns(
        TP,
        pa.array([7, 8, 9]).to_numpy(),
        pa.array([b"{}"] * 3, pa.binary()),
        keys=pa.array([b"a", None, b"a"], pa.binary()),
    )

    got = apply(group.pipeline(), given)

    digits = hashlib.sha256(b"a").hexdigest()[:32]
    assert payloads(got) == [f'{{"id":"{digits}"}}'.encode()] * 2
    assert rejected(got) == {1: "log id: the record has no key"}


def test_a_missing_secret_waits_for_a_person() -> None:
    with pytest.raises(Stalled):
        Group([{"use": "Hash", "options": {"fields": ["x"], "secret": "nowhere"}}]).pipeline()
