"""A record that makes a stage fail unexpectedly is a dead letter, and the others land as ever."""

import io
import logging
import sys
from collections.abc import Mapping
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from landfall.errors import Retry, StoreAway
from landfall.formats import Block
from landfall.formats.jsonlines import JsonFormat
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import Records
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.faults import StageFault, find_culprits, stage
from landfall.task.landing import land
from landfall.task.partitioning import Partitioner
from landfall.task.trial import Fate, trials
from tests.support.driver.slice_landing import (
    TP,
    FakeReader,
    click,
    content,
    group,
    is_empty,
    land_rows,
    records_of,
)


class PanicException(BaseException):
    """What PyO3 raises when a Rust library panics."""


ERRORS: dict[str, BaseException] = {
    "value": ValueError("secret 4711"),
    "panic": PanicException("index out of bounds"),
    "recursion": RecursionError("too deep"),
    "memory": MemoryError(),
    "disk": OSError("no space left on device"),
    "store": StoreAway("the store is away"),
}


def strike(records: Records) -> None:
    """Raise the error that the first payload with one of the names above asks for."""
    for value in records.values.to_pylist():
        for name, error in ERRORS.items():
            if value and b'"fault":"%s"' % name.encode() in value:
                raise error


class Striking:
    """A transform that fails because of a payload."""

    fields = ()

    @classmethod
    def of(cls, _: Mapping[str, object]) -> "Striking":
        return cls()

    def apply(self, decoded: Decoded) -> Decoded:
        strike(decoded.records)
        return decoded


class StrikingFormat:
    """A format that refuses no row and fails when it encodes some."""

    def __init__(self, inner: JsonFormat) -> None:
        self._inner = inner

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "StrikingFormat":
        return cls(JsonFormat.of(options))

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def encoder(self) -> "StrikingEncoder":
        return StrikingEncoder(self._inner.encoder())


class StrikingEncoder:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def encode(self, block: Block) -> bytes:
        strike(block.records)
        return self._inner.encode(block)  # type: ignore[attr-defined,no-any-return]

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("striking_plugin")
    module.Striking = Striking  # type: ignore[attr-defined]
    module.StrikingFormat = StrikingFormat  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "striking_plugin", module)


IN_TRANSFORM = {"transforms": [{"use": "striking_plugin:Striking"}]}
IN_FORMAT = {"output": {"url": "s3://b", "format": "striking_plugin:StrikingFormat"}}
EVERYWHERE = pytest.mark.parametrize("spec", [IN_TRANSFORM, IN_FORMAT], ids=["transform", "format"])


def faulty(offset: int, error: str) -> tuple[int, bytes]:
    number, payload = click(offset)
    return number, payload[:-1] + b',"fault":"%s"}' % error.encode()


def letters(bodies: Mapping[str, bytes]) -> list[tuple[int, str, str]]:
    found = [body for key, body in bodies.items() if "/dead-letters/" in key]
    rows = [row for body in found for row in pq.read_table(io.BytesIO(body)).to_pylist()]
    return [(row["offset"], row["stage"], row["error"]) for row in rows]


def data(bodies: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: body for key, body in bodies.items() if "/dead-letters/" not in key}


@EVERYWHERE
@pytest.mark.parametrize("error", ["value", "panic", "recursion"])
def test_the_culprit_is_a_dead_letter_and_the_others_land(
    spec: dict[str, object], error: str
) -> None:
    rows = [click(o) for o in range(100, 190)]
    store, without = MemoryStore(), MemoryStore()

    result = land_rows([*rows[:50], faulty(150, error), *rows[51:]], store, chunk=20, **spec)

    bodies = content(result, store)
    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered, result.unexpected) == (89, 1, 1)
    ((offset, where, text),) = letters(bodies)
    assert (offset, where) == (150, "transform" if spec is IN_TRANSFORM else "encode")
    assert text.startswith(f"unexpected {type(ERRORS[error]).__name__} at ")
    assert ", please report it" in text
    assert data(bodies) == data(
        content(land_rows([*rows[:50], *rows[51:]], without, chunk=20, **spec), without)
    )


@EVERYWHERE
def test_only_the_dead_letter_quotes_the_exception(
    spec: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = MemoryStore()

    result = land_rows([click(101), faulty(102, "value")], store, **spec)

    assert isinstance(result, LandedSlice)
    assert letters(content(result, store))[0][2].endswith("please report it: secret 4711")
    assert "unexpected ValueError at task/test_faults.py:" in result.errors[0]
    assert "4711" not in result.errors[0] + caplog.text
    assert "clicks/3@102" in str([vars(record) for record in caplog.records])


@EVERYWHERE
def test_any_number_of_culprits_is_found(spec: dict[str, object]) -> None:
    store = MemoryStore()
    rows = [faulty(o, "value") if o % 3 == 0 else click(o) for o in range(100, 190)]

    result = land_rows(rows, store, chunk=20, **spec)

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.unexpected) == (60, 30)
    found = [offset for offset, *_ in letters(content(result, store))]
    assert found == [o for o in range(100, 190) if o % 3 == 0]


@EVERYWHERE
@pytest.mark.parametrize("error", ["memory", "disk", "store"])
def test_what_no_record_causes_fails_the_slice(spec: dict[str, object], error: str) -> None:
    store = MemoryStore()

    result = land_rows([click(101), faulty(102, error)], store, **spec)

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Retry)
    assert is_empty(store)


def test_a_panic_in_one_slice_lands_the_others() -> None:
    class Pair(FakeReader):
        def read(self, slice_: Slice) -> object:  # type: ignore[override]
            if slice_.topic_partition.partition == 0:
                raise PanicException("in the reader")
            return super().read(slice_)

    slices = [Slice(TopicPartition("clicks", p), OffsetRange(0, 10)) for p in range(2)]
    log = {slice_.topic_partition: [click(3)] for slice_ in slices}
    store = MemoryStore()

    failed, landed = land(Batch(group(), "token"), slices, Pair(log), store)  # type: ignore[arg-type]

    assert isinstance(failed, FailedSlice)
    assert "unexpected PanicException at " in str(failed.error)
    assert isinstance(landed, LandedSlice)
    assert landed.landed == 1


def test_a_fault_that_no_single_record_causes_fails_the_slice() -> None:
    class Together(Striking):
        def apply(self, decoded: Decoded) -> Decoded:
            if len(decoded.records) > 1:
                raise KeyError("only together")
            return decoded

    sys.modules["striking_plugin"].Striking = Together  # type: ignore[attr-defined]

    result = land_rows([click(101), click(102)], MemoryStore(), **IN_TRANSFORM)

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Retry)
    assert "unexpected KeyError at " in str(result.error)


def test_try_shows_the_same() -> None:
    spec = group(**IN_TRANSFORM).spec
    rows = [click(101), faulty(102, "value"), (103, b"no json"), click(104)]
    records = records_of(TP, [o for o, _ in rows], [value for _, value in rows])

    tried = trials(Partitioner.of(spec), spec, records)

    assert [(t.row, t.fate, t.stage) for t in tried] == [
        (0, Fate.LANDS, ""),
        (1, Fate.DEAD_LETTER, "transform"),
        (2, Fate.DEAD_LETTER, "decode"),
        (3, Fate.LANDS, ""),
    ]


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("every", [1, 2, 5, 100])
def test_halving_finds_exactly_the_culprits(rows: int, every: int) -> None:
    wrong = set(range(0, rows, every))

    def run(part: range) -> None:
        with stage("decode"):
            if wrong & set(part):
                raise ValueError

    assert find_culprits(rows, run).keys() == wrong


def test_a_fault_names_the_innermost_stage() -> None:
    with pytest.raises(StageFault) as caught, stage("decode"), stage("transform"):
        raise ValueError

    assert caught.value.stage == "transform"
