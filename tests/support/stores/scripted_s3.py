"""An ``S3Store`` whose server gives the answers that a test scripts, and such answers."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from landfall.objects import Part, Upload
from landfall.store.s3.store import TOKEN, S3Store
from tests.support.stores.scripted import Answer, Scripted, error

UPLOAD = Upload("data/1", "id-1", (Part(f'"{hashlib.md5(b"body").hexdigest()}"', 4),), "token-1")
COMPLETED = Answer(
    200, b'<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
)
OK = Answer(200, headers={"ETag": '"x"'})
NO_PARTS = error(404, "NoSuchUpload")
OPEN_PARTS = Answer(
    200,
    f"<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>{UPLOAD.parts[0].etag}</ETag></Part>"
    "<IsTruncated>false</IsTruncated></ListPartsResult>".encode(),
)


def head(token: str = "token-1", size: int = 4, **headers: str) -> Answer:
    metadata = {"ETag": '"opaque"', "Content-Length": str(size), f"x-amz-meta-{TOKEN}": token}
    return Answer(
        200, headers=metadata | {name.replace("_", "-"): value for name, value in headers.items()}
    )


@dataclass(frozen=True)
class Setting:
    store: S3Store
    server: Scripted


Script = Callable[..., Setting]
