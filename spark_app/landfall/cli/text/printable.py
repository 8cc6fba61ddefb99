"""Bytes as commands print them in JSON."""

import base64


def printable(value: object) -> object:
    """Bytes as text if they are valid UTF-8, else as ``{"base64": …}``; other values unchanged."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
