"""Listings of boto3, page by page, with errors translated."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from landfall.store.s3.errors import code_of, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Listing = Literal["list_objects_v2", "list_parts"]


def pages(
    client: "S3Client",
    operation: Listing,
    url: str,
    request: dict[str, Any],
    absent: frozenset[str] = frozenset(),
) -> Iterator[Any]:
    """The pages of a listing of ``url``, which ends at a response with one of the ``absent`` codes.

    Each page is a request of its own, made when the caller comes to it.
    """
    found = iter(client.get_paginator(operation).paginate(**request))
    while page := _next_page(found, f"{operation} {url}", absent):
        yield page


def _next_page(found: Iterator[Any], request: str, absent: frozenset[str]) -> Any:
    operation, _, url = request.partition(" ")
    with translate_errors(operation, url):
        try:
            return next(found, None)
        except ClientError as error:
            if code_of(error) in absent:
                return None
            raise
