"""Numbers on the command line. Imports nothing heavy, like the arguments that use them."""

import argparse
import re

MAX_PORT = 65535


def port(text: str) -> int:
    """A TCP port.

    Raises:
        ArgumentTypeError: the text is not a number from 0 to 65535.
    """
    return _number(text, MAX_PORT)


def natural(text: str) -> int:
    """A number from 0 on that fits in 64 bits.

    Raises:
        ArgumentTypeError: the text is no such number.
    """
    return _number(text, 2**63 - 1)


def _number(text: str, most: int) -> int:
    if not re.fullmatch("[0-9]{1,19}", text, re.ASCII) or int(text) > most:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {most}, got {text!r}")
    return int(text)
