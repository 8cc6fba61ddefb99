"""A new bucket of a Cloud Storage server, read and changed with Google's own library."""

from uuid import uuid4

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Blob, Bucket, Client

from landfall.objects import Upload
from tests.support.places import Place

PREFIX = "roots/g/"
"""Of the output root, in its bucket."""
PARTS = f"{PREFIX}_landfall/_parts/"


def place(address: str) -> Place:
    """A new bucket, and an output root in it."""
    bucket = bucket_at(address).client.create_bucket(f"test-{uuid4().hex[:12]}")
    return Place(
        output={
            "url": f"gs://{bucket.name}/{PREFIX.strip('/')}",
            # The server answers 500 to a compose of missing parts, where Google answers 404.
            "gcs": {"endpoint": address, "maxAttempts": 2},
        },
        stamps=lambda: {
            found.name.removeprefix(PREFIX): (str(found.generation), found.updated.isoformat())
            for found in bucket.list_blobs(prefix=PREFIX)
            if not found.name.startswith(PARTS)
        },
        uploading=lambda: sorted({_key_of(found) for found in bucket.list_blobs(prefix=PARTS)}),
        read=lambda key: bucket.blob(PREFIX + key).download_as_bytes(),
        write=lambda key, body: bucket.blob(PREFIX + key).upload_from_string(body),
        delete=lambda key: bucket.blob(PREFIX + key).delete(),
        lose=lambda upload: _lose(bucket, upload),
    )


def bucket_at(address: str, name: str = "none") -> Bucket:
    """A bucket of this name, which need not exist."""
    client = Client(
        project="test",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": address},
    )
    return client.bucket(name)


def _key_of(part: Blob) -> str:
    key: str = part.name.removeprefix(PARTS).rsplit("/", 2)[0]
    return key


def _lose(bucket: Bucket, upload: Upload) -> None:
    for part in bucket.list_blobs(prefix=f"{PARTS}{upload.key}/{upload.upload_id}/"):
        part.delete()
