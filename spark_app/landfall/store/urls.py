"""Opens the store that ``spec.output`` names: ``s3://bucket/prefix``, ``file:///folder`` or custom.

``spec.output.store: package.module:Name`` names a custom store, which interprets the URL itself;
see ``StoreType``.
"""

import importlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

from landfall.api import spec
from landfall.errors import Reason, Stalled
from landfall.store import Store, StoreType


def open_store(output: spec.Output) -> Store:
    """The store that ``output`` names, without a request to it. A process needs only one.

    Raises:
        Stalled: SPEC_INVALID, there is no such store type.
        StoreDenied: credentials are missing.
    """
    if output.store:
        return _store_type(output.store).of(output)
    url = urlsplit(output.url)
    if url.scheme == "s3":
        from landfall.store.s3 import S3Store  # noqa: PLC0415  # importing boto3 takes 0.2 s

        return S3Store(url.netloc, url.path, output.s3)
    if url.scheme == "file":
        from landfall.store.file import FileStore  # noqa: PLC0415  # as above, only what is needed

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
