"""The body of an S3 response as a stream."""

import io
from typing import TYPE_CHECKING, Any

from landfall.store.s3.errors import translate_errors

if TYPE_CHECKING:
    from botocore.response import StreamingBody


class ResponseBody(io.RawIOBase):
    """The body of a response, with errors translated. boto3 checks its length."""

    def __init__(self, body: "StreamingBody", url: str) -> None:
        """Read ``body``; errors name ``url``."""
        super().__init__()
        self._body = body
        self._url = url

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer, and return how many bytes.

        Raises:
            StoreAway: the connection broke, or ended early.
        """
        with translate_errors("read", self._url):
            return int(self._body.readinto(buffer))

    def close(self) -> None:
        """Give the connection back."""
        self._body.close()
        super().close()
