"""From ``spec.output`` to the store it names: ``s3://bucket/prefix``, ``file:///folder``, or one of your own.

Your own is named by ``spec.output.store: package.module:Name``; the URL is then yours to read. See
``StoreType``.
"""

import importlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

from landfall.api import spec
from landfall.errors import Reason, Stalled
from landfall.store import Store, StoreType


def open_store(output: spec.Output) -> Store:
    """The store that ``output`` names; nothing is asked of it yet. One per process is enough.

    Raises:
        Stalled: SPEC_INVALID, no such store type; STORE_DENIED, credentials are missing.
    """
    if output.store:
        return _store_type(output.store).of(output)
    url = urlsplit(output.url)
    if url.scheme == "s3":
        from landfall.store.s3 import S3Store  # noqa: PLC0415  # 0.2 s of boto3 that a file store does without

        return S3Store(url.netloc, url.path, output.s3)
    if url.scheme == "file":
        from landfall.store.file import FileStore  # noqa: PLC0415  # symmetry

        return FileStore(Path(unquote(url.path)))
    raise Stalled(
        Reason.SPEC_INVALID,
        f"output.url: no store for {url.scheme}://; name one of your own in output.store",
    )


def _store_type(path: str) -> StoreType:
    module, _, name = path.partition(":")
    try:
        found: StoreType = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Stalled(Reason.SPEC_INVALID, f"output.store: {path!r}: {error}") from error
    return found
