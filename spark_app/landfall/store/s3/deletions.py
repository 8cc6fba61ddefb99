"""Deletes objects of a bucket: many by few requests, or one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from landfall.errors import StoreAway, StoreDenied
from landfall.store.s3.errors import blames_credentials, code_of, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DELETED_AT_ONCE = 1000  # the most keys that a DeleteObjects request may have


def delete_object(client: "S3Client", bucket: str, key: str) -> None:
    """Delete an object, if it exists.

    Raises:
        StoreDenied, StoreAway: see ``s3.errors``.
    """
    with translate_errors("retire", f"s3://{bucket}/{key}"):
        try:
            client.delete_object(Bucket=bucket, Key=key)
        except ClientError as error:
            # S3 confirms it; versitygw does not if another driver is a moment faster.
            if code_of(error) != "NoSuchKey":
                raise


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
