"""What the options of ``landfall backfill`` take: times, generations, shares, cores, keys."""

import argparse
import json
import re
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path


def moment(text: str) -> datetime:
    """A time, in UTC if it names no time zone.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-11-21T05:00Z, got {text!r}"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def generations(text: str) -> range:
    """A generation, or the first and the last of several.

    Raises:
        ArgumentTypeError: the text is neither.
    """
    match = re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", text, re.ASCII)
    found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
    if not found:
        raise argparse.ArgumentTypeError(f"must be generations such as 7 or 5-7, got {text!r}")
    return found


def percentage(text: str) -> Fraction:
    """A share above zero, as of ``10%``.

    Raises:
        ArgumentTypeError: it is none.
    """
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%", text, re.ASCII)
    share = Fraction(match[1]) / 100 if match else Fraction(0)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"must be a percentage such as 10%, got {text!r}")
    return share


def cores(text: str) -> int:
    """A number of cores.

    Raises:
        ArgumentTypeError: it is none from 1 to 9999.
    """
    if not re.fullmatch("[1-9][0-9]{0,3}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 9999, got {text!r}")
    return int(text)


def object_keys(text: str) -> frozenset[str]:
    """The keys in a file: a JSON list of them, or a document that lists wrong objects.

    Raises:
        ArgumentTypeError: it cannot be read, or is neither.
    """
    try:
        found = json.loads(Path(text).read_text("utf-8"))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text}: not JSON: {error}") from None
    if isinstance(found, dict) and isinstance(found.get("wrong"), list):
        found = [each.get("key") for each in found["wrong"] if isinstance(each, dict)]
    if not isinstance(found, list) or not found or not all(isinstance(key, str) for key in found):
        raise argparse.ArgumentTypeError(f"{text}: expected a list of keys")
    return frozenset(found)
