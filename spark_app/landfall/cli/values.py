"""Parses values of the command line: numbers, times, offsets. Imports nothing heavy.

Each function raises ``argparse.ArgumentTypeError`` if the text is no such value.
"""

import argparse
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from landfall.api.contract import LedgerAnchor

Offsets: TypeAlias = Mapping[str, Mapping[str, int]]
"""Offsets by topic, then by Kafka partition number as text."""
MAX_PORT = 65535
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LOCAL = r"local(\[(\*|[1-9][0-9]{0,3})(,[1-9][0-9]{0,3})?\])?"
_MASTER = re.compile(rf"{_LOCAL}|spark://[^/\s:]+:[0-9]+(,[^/\s:]+:[0-9]+)*|k8s://\S+|yarn")


# ------------------------------------------------------------------------------------- numbers


def port(text: str) -> int:
    """A TCP port."""
    return _number(text, MAX_PORT)


def natural(text: str) -> int:
    """A number of at least 0 that fits in 64 bits."""
    return _number(text, 2**63 - 1)


def _number(text: str, most: int) -> int:
    if not re.fullmatch("[0-9]{1,19}", text, re.ASCII) or int(text) > most:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {most}, got {text!r}")
    return int(text)


def cores(text: str) -> int:
    """A number of cores, from 1 to 9999."""
    if not re.fullmatch("[1-9][0-9]{0,3}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 9999, got {text!r}")
    return int(text)


def generations(text: str) -> range:
    """A generation, or the first and the last of several."""
    match = re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", text, re.ASCII)
    found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
    if not found:
        raise argparse.ArgumentTypeError(f"must be generations such as 7 or 5-7, got {text!r}")
    return found


def percentage(text: str) -> Fraction:
    """A share above zero, as of ``10%``."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%", text, re.ASCII)
    share = Fraction(match[1]) / 100 if match else Fraction(0)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"must be a percentage such as 10%, got {text!r}")
    return share


# --------------------------------------------------------------------------------------- times


def duration(text: str) -> timedelta:
    """A time such as ``90s``, ``15m``, ``1h`` or ``2d``."""
    match = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a time such as 15m or 1h, got {text!r}")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def wait(text: str) -> timedelta | None:
    """A time; None for 0, which means for ever."""
    return None if text == "0" else duration(text)


def moment(text: str) -> datetime:
    """A time, in UTC if it names no time zone."""
    return _time(text, f"must be a time such as 2026-11-21T05:00Z, got {text!r}")


def time(text: str) -> datetime:
    """Like ``moment``."""
    return _time(text, f"not a time, such as 2026-11-21T05:00Z: {text!r}")


def instant(text: str) -> datetime:
    """Like ``moment``."""
    return _time(text, f"must be a time in ISO 8601, got {text!r}")


def _time(text: str, refusal: str) -> datetime:
    try:
        return _in_utc(text)
    except ValueError:
        raise argparse.ArgumentTypeError(refusal) from None


def _in_utc(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# ------------------------------------------------------------------------------ ledger and Kafka


def anchor(text: str) -> LedgerAnchor:
    """A slot of a ledger with its hash."""
    try:
        return LedgerAnchor.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def position(text: str) -> "int | str":
    """An offset, ``earliest`` or ``latest``."""
    return text if text in {"earliest", "latest"} else natural(text)


def start(text: str) -> Any:
    """Return the value of ``startingOffsets`` for an argument."""
    if text in {"Earliest", "Latest"}:
        return text
    found = end(text)
    if isinstance(found, datetime):
        return {"timestamp": found.isoformat()}
    return {"offsets": found}


def end(text: str) -> datetime | Offsets:
    """A time, in UTC if it names no time zone, or the offsets in a file."""
    try:
        return _in_utc(text)
    except ValueError:
        return _offsets(Path(text))


def _offsets(path: Path) -> Offsets:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{path} is neither a time, such as 2026-11-21T05:00Z, nor a file: {error.strerror}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{path}: not JSON: {error}") from None
    if not _are_offsets(found):
        raise argparse.ArgumentTypeError(
            f'{path}: expected offsets, such as {{"clicks": {{"0": 1200}}}}'
        )
    offsets: Offsets = found
    return offsets


def _are_offsets(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(partitions, dict)
        and all(
            number.isdecimal() and isinstance(offset, int) and offset >= 0
            for number, offset in partitions.items()
        )
        for partitions in value.values()
    )


# ------------------------------------------------------------------------------- objects and Spark


def object_keys(text: str) -> frozenset[str]:
    """The keys in a file: a JSON list of them, or a document that lists wrong objects."""
    try:
        found = json.loads(Path(text).read_text("utf-8"))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text}: not JSON: {error}") from None
    if isinstance(found, dict) and isinstance(found.get("wrong"), list):
        found = [entry.get("key") for entry in found["wrong"] if isinstance(entry, dict)]
    if not isinstance(found, list) or not found or not all(isinstance(key, str) for key in found):
        raise argparse.ArgumentTypeError(f"{text}: expected a list of keys")
    return frozenset(found)


def key_and_value(text: str) -> tuple[str, str]:
    """A key and its value, from ``key=value``."""
    key, found, value = text.partition("=")
    if not (key and found):
        raise argparse.ArgumentTypeError(f"must be key=value, got {key!r}")
    return key, value


def spark_master(text: str) -> str:
    """A Spark master's URL, in a form that Spark accepts."""
    if not _MASTER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "must be local, local[N], local[*], spark://HOST:PORT, k8s://https://HOST:PORT or "
            f"yarn, got {text!r}"
        )
    return text
