"""What a commit in the log of a Delta table says of its position, which others may have written."""

import base64
import zlib
from typing import Any, cast

import pytest

from landfall.publish import table_position
from landfall.publish.delta import position as delta_position
from landfall.publish.delta.position import PositionUnknown, position_of, properties
from landfall.publish.table_position import TablePosition

ROOT = "s3://lake/out"


def of(**said: Any) -> TablePosition:
    """The position that a table has by its newest commit."""
    commit = {f"landfall/{name.replace('_', '-')}": value for name, value in said.items()}
    commits = [{"version": 3, "landfall/root": ROOT, **commit}]
    return position_of(cast("delta_position.Commits", commits), "landfall", ROOT)


def packed(keys: bytes) -> str:
    return base64.b64encode(zlib.compress(keys)).decode()


def test_a_commit_of_our_own() -> None:
    commit = {"version": 3, **properties("landfall", ROOT, 7, {"a", "b"})}

    found = position_of(cast("delta_position.Commits", [commit]), "landfall", ROOT)

    assert found == TablePosition(7, frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("through", "left_out"),
    [
        ("x", ""),
        ([], ""),
        (float("inf"), ""),
        (10**400, ""),
        ("9" * 5_000, ""),
        ("-2", ""),
        ("7", "not base64"),
        ("7", base64.b64encode(b"not zlib").decode()),
        ("7", packed(b"[")),
        ("7", packed(b"[" * 100_000)),
        ("7", packed(b"{}")),
        ("7", packed(b"[1]")),
        ("7", 8),
    ],
)
def test_a_commit_of_somebody_else(through: object, left_out: object) -> None:
    with pytest.raises(PositionUnknown, match=r"names no position of this publisher: .*--rebuild"):
        of(through=through, left_out=left_out)


def test_keys_that_unpack_to_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_position, "MAX_KEYS_BYTES", 1_000)

    with pytest.raises(PositionUnknown, match="more than 0 MiB"):
        of(through="7", left_out=packed(b'["' + b"a" * 1_000_000 + b'"]'))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        None,
        [],
        "version",
        {"version": "x"},
        {"version": []},
        {"version": float("inf")},
        {"version": "9" * 5_000},
        {"version": "\u00b2"},
        {"datetime": "soon"},
        {"datetime": "\u00b2"},
        {"datetime": "9" * 5_000},
        {"timestamp": {"a": 1}},
    ],
    ids=lambda parameters: repr(parameters)[:40],
)
def test_a_restore_to_no_version(parameters: object) -> None:
    restore = {"version": 4, "operation": "RESTORE", "operationParameters": parameters}

    with pytest.raises(PositionUnknown, match=r"names no version: .*--rebuild") as caught:
        position_of(cast("delta_position.Commits", [restore, {"version": 0}]), "landfall", ROOT)

    assert len(str(caught.value)) < 400
