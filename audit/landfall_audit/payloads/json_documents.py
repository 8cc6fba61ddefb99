"""JSON payloads, read by ``json``: numbers stay as they are written."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from landfall_audit.half_pairs import without_halves
from landfall_audit.payloads import BadPayload, JsonNumber, Undecided


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no number {name}")


_DECODER = json.JSONDecoder(
    parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_no_constant
)


def value_of(text: bytes) -> Any:
    """The value of a JSON text; of a repeated key the last one counts.

    Raises:
        BadPayload: it is no JSON.
        Undecided: it is nested too deep.
    """
    try:
        found = without_halves(text).decode()
        return _DECODER.decode(found)
    except RecursionError:
        raise Undecided("JSON that is nested too deep") from None
    except ValueError as error:
        raise BadPayload(f"json: {error}") from None


def document(payload: bytes) -> Mapping[str, object]:
    """The object that a payload is.

    Raises:
        BadPayload: it is no JSON object.
    """
    found = value_of(payload)
    if not isinstance(found, dict):
        raise BadPayload("json: no object")
    return found
