"""Whether an S3 server tells the truth when it confirms a completion.

versitygw 1.8 answers 200, with the ETag one expects, to the completion of an upload that was
aborted, if any object is at the key. So a server is asked once, with such an upload of our own.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict
from uuid import uuid4

from botocore.exceptions import ClientError

from landfall.store.probe import PREFIX
from landfall.store.s3.errors import code_of, translate_errors
from landfall.store.s3.options import WriteOptions

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Address(TypedDict):
    """Where an object is, as boto3's methods take it."""

    Bucket: str
    Key: str


def confirms_truly(client: "S3Client", bucket: str, root: str, options: WriteOptions) -> bool:
    """Whether the server refuses to complete an upload that was aborted; five requests.

    Like ``landfall.store.probe`` it writes an object of a few bytes, and deletes it if it may.

    Raises:
        Retry: the server does not answer, or refuses.
    """
    at: Address = {"Bucket": bucket, "Key": f"{root}{PREFIX}0/{uuid4().hex}/answer"}
    with translate_errors("probe", f"s3://{bucket}/{at['Key']}"):
        client.put_object(**at, **options.of_slot(b"another"))
        upload_id = client.create_multipart_upload(**at, **options.every)["UploadId"]
        part = client.upload_part(
            **at, UploadId=upload_id, PartNumber=1, **options.of_part(b"aborted")
        )
        client.abort_multipart_upload(**at, UploadId=upload_id)
        try:
            client.complete_multipart_upload(
                **at,
                UploadId=upload_id,
                MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
            )
        except ClientError as error:
            return code_of(error) == "NoSuchUpload"
        finally:
            with suppress(ClientError):
                client.delete_object(**at)
    return False
