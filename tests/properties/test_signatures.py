"""Of a signed request, no byte can be changed: not of the header, nor of what it is for."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.contract import CONTROL_PATHS
from landfall.api.signatures import Addressee, KeyDocument, SignatureRefusal, SignedHeader
from landfall.driver.http.signed_requests import SignatureCheck, is_body
from tests.support.driver.signing import NOW, Asked, new_key, public

texts = st.text(st.characters(codec="ascii", exclude_characters="\x00"), min_size=1, max_size=20)
addressees = st.builds(Addressee, texts, texts, texts, texts, texts)
requests = st.builds(
    Asked,
    path=st.sampled_from(sorted(CONTROL_PATHS.values())) | texts,
    body=st.binary(max_size=60),
    method=st.sampled_from(["POST", "GET"]) | texts,
    addressee=addressees,
    time=st.integers(NOW - 60_000, NOW + 60_000),
    nonce=st.integers(0, 2**128 - 1).map("{:032x}".format),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


def taken(file: Path, to: Addressee, method: str, target: str, header: str, body: bytes) -> bool:
    """Whether the driver ``to`` takes a request, long after its start."""
    file.write_text(KeyDocument(to.uid, (public(new_key()), public(new_key(2)))).text())
    clock = iter([0])
    check = SignatureCheck(
        file, to.namespace, to.group, to.revision, to.pod, lambda: next(clock, NOW)
    )
    signed = check.check(method, target, header)
    assert isinstance(signed, SignedHeader | SignatureRefusal)
    return isinstance(signed, SignedHeader) and is_body(signed, body)


@given(asked=requests)
def test_what_the_operator_signs_is_taken(file: Path, asked: Asked) -> None:
    assert taken(file, asked.addressee, asked.method, asked.path, asked.header, asked.body)


@given(asked=requests, data=st.data())
def test_a_changed_byte_of_the_header_is_refused(
    file: Path, asked: Asked, data: st.DataObject
) -> None:
    header = asked.header
    at = data.draw(st.integers(0, len(header) - 1))
    other = data.draw(st.characters(codec="latin-1").filter(lambda c: c != header[at]))
    changed = header[:at] + other + header[at + 1 :]

    assert not taken(file, asked.addressee, asked.method, asked.path, changed, asked.body)


@given(asked=requests, data=st.data())
def test_a_change_of_what_the_request_is_for_is_refused(
    file: Path, asked: Asked, data: st.DataObject
) -> None:
    part = data.draw(st.sampled_from(["method", "path", "body", *_OF_ADDRESSEE]))
    holder: Any = asked.addressee if part in _OF_ADDRESSEE else asked
    before = getattr(holder, part)
    values = st.binary(max_size=60) if part == "body" else texts
    changed = replace(holder, **{part: data.draw(values.filter(lambda value: value != before))})
    other = replace(asked, addressee=changed) if isinstance(changed, Addressee) else changed

    assert isinstance(other, Asked)
    assert not taken(file, other.addressee, other.method, other.path, asked.header, other.body)


@given(asked=requests, data=st.data())
def test_what_moves_from_one_part_into_the_next_is_refused(
    file: Path, asked: Asked, data: st.DataObject
) -> None:
    """As with parts that are joined by nothing, or by a character that they may have."""
    to = asked.addressee
    both = to.namespace + to.group
    at = data.draw(st.integers(0, len(both)).filter(lambda at: at != len(to.namespace)))
    other = replace(to, namespace=both[:at], group=both[at:])

    assert not taken(file, other, asked.method, asked.path, asked.header, asked.body)


_OF_ADDRESSEE = [field.name for field in fields(Addressee)]
