"""Lists the open multipart uploads of a bucket, whatever way of paging its server knows.

A page of the listing ends at a key and an upload id, and S3 continues after both. versitygw 1.8
looks for the id only under the key that comes next, and refuses the request (400 InvalidArgument).
After such a refusal pages continue by the key alone. That would skip the rest of the uploads of the
key at which a page ended, so they are asked for by a request of their own, with the key as prefix.
It shows the first 1,000 uploads of that key; further ones are listed when these are gone.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from landfall.errors import StoreAway
from landfall.store.s3.errors import code_of, translate_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListMultipartUploadsOutputTypeDef, MultipartUploadTypeDef


class OpenUploadListing:
    """The open uploads under a prefix of a bucket, in key order."""

    def __init__(self, client: "S3Client", bucket: str, prefix: str) -> None:
        """Nothing is requested before the first upload is asked for."""
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def __iter__(self) -> "Iterator[MultipartUploadTypeDef]":
        """Each upload once; 1,000 per request.

        Raises:
            Retry: the server gives one page again and again, or does not answer.
        """
        page, by_key_alone = self._page(self._prefix), False
        while True:
            listed = page.get("Uploads", [])
            yield from listed
            if not page.get("IsTruncated"):
                return
            ended_at = _end_of(page)
            following = None if by_key_alone else self._after(*ended_at)
            if following is None:
                by_key_alone = True
                yield from self._rest_of(ended_at[0], listed)
                following = self._page(self._prefix, ended_at[0])
            if following.get("IsTruncated") and _end_of(following) == ended_at:
                raise StoreAway(f"list uploads {self._url}: stuck at {ended_at[0]}")
            page = following

    @property
    def _url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def _page(self, prefix: str, after: str = "") -> "ListMultipartUploadsOutputTypeDef":
        with translate_errors("list uploads", self._url):
            return self._client.list_multipart_uploads(
                Bucket=self._bucket, Prefix=prefix, KeyMarker=after
            )

    def _after(self, key: str, upload_id: str) -> "ListMultipartUploadsOutputTypeDef | None":
        """The page after an upload; None if the server cannot continue there."""
        with translate_errors("list uploads", self._url):
            try:
                return self._client.list_multipart_uploads(
                    Bucket=self._bucket,
                    Prefix=self._prefix,
                    KeyMarker=key,
                    UploadIdMarker=upload_id,
                )
            except ClientError as error:
                if code_of(error) == "InvalidArgument":
                    return None
                raise

    def _rest_of(
        self, key: str, listed: "list[MultipartUploadTypeDef]"
    ) -> "Iterator[MultipartUploadTypeDef]":
        """The uploads of a key that a page, which ended at it, did not list."""
        known = {upload["UploadId"] for upload in listed if upload["Key"] == key}
        for upload in self._page(key).get("Uploads", []):
            if upload["Key"] == key and upload["UploadId"] not in known:
                yield upload


def _end_of(page: "ListMultipartUploadsOutputTypeDef") -> tuple[str, str]:
    """The key and the upload id that a page ends at."""
    return page.get("NextKeyMarker", ""), page.get("NextUploadIdMarker", "")
