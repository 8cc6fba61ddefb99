"""The schema of ConsumerGroups, made once in each process: making it takes most of a second."""

from functools import cache
from typing import Any

from landfall_operator.api import crd


@cache
def group_schema() -> dict[str, Any]:
    """The structural schema with its rules; nobody changes it."""
    return crd.schema()
