"""Deletes many keys of a bucket by few requests."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from landfall.errors import StoreAway, StoreDenied
from landfall.store.s3.errors import blames_credentials, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DELETED_AT_ONCE = 1000  # the most keys that a DeleteObjects request may have


def delete_keys(client: "S3Client", bucket: str, keys: Sequence[str]) -> None:
    """Delete the objects that exist, a thousand per request.

    Raises:
        StoreDenied, StoreAway: one of them was not deleted; others may be.
    """
    for first in range(0, len(keys), _DELETED_AT_ONCE):
        some = [{"Key": key} for key in keys[first : first + _DELETED_AT_ONCE]]
        with translate_errors("delete", f"s3://{bucket}/{keys[first]}"):
            answer = client.delete_objects(
                Bucket=bucket,
                Delete={"Objects": some, "Quiet": True},  # type: ignore[typeddict-item]  # a list of the literal dict
            )
        for failed in answer.get("Errors", ()):
            code = failed.get("Code", "")
            kind = StoreDenied if blames_credentials(0, code) else StoreAway
            raise kind(f"delete s3://{bucket}/{failed['Key']}: {code}: {failed.get('Message')}")
