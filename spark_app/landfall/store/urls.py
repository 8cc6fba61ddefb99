"""Opens the store that ``spec.output`` names, by the scheme of its URL, or a custom one.

``spec.output.store: package.module:Name`` names a custom store, which interprets the URL itself;
see ``StoreType``.
"""

import importlib
from pathlib import Path
from urllib.parse import unquote

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
    try:
        store = _open_built_in(output)
    except ModuleNotFoundError as error:
        extra = output.access_field
        raise Stalled(
            Reason.SPEC_INVALID,
            f"output.url: {output.url} needs the Python package {error.name}, which is not "
            f"installed: pip install 'landfall[{extra}]', or an image built with it",
        ) from error
    if store is None:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"output.url: no store for {output.url}; name one of your own in output.store",
        )
    return store


def _open_built_in(output: spec.Output) -> Store | None:
    # Each client library takes 0.1 to 0.5 s to import, and may not be installed.
    scheme, _, rest = output.url.partition("://")
    host, _, path = rest.partition("/")
    match scheme:
        case "s3":
            from landfall.store.s3.store import S3Store  # noqa: PLC0415

            return S3Store(host, path, output.s3)
        case "abfss":
            from landfall.store.azure.store import AzureStore  # noqa: PLC0415

            container, _, account = host.partition("@")
            return AzureStore(account, container, path, output.azure)
        case "gs":
            from landfall.store.gcs.store import GcsStore  # noqa: PLC0415

            return GcsStore(host, path, output.gcs)
        case "hdfs":
            from landfall.store.hdfs.store import HdfsStore  # noqa: PLC0415

            return HdfsStore(host, unquote(path), output.hdfs)
        case "file":
            from landfall.store.file import FileStore  # noqa: PLC0415

            return FileStore(Path("/", unquote(path)))
    return None


def _store_type(path: str) -> StoreType:
    module, _, name = path.partition(":")
    try:
        found: StoreType = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Stalled(Reason.SPEC_INVALID, f"output.store: {path!r}: {error}") from error
    return found
