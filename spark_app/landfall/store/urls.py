"""Opens the store of a root by the scheme of its URL, or a custom one.

``spec.output.store: package.module:Name`` names a custom store, which interprets the URL itself;
see ``StoreType``.
"""

import importlib
from pathlib import Path
from urllib.parse import unquote

from landfall.api import spec
from landfall.errors import Reason, Stalled
from landfall.store import SourceFiles, Store, StoreType


def open_store(root: spec.Root) -> Store:
    """The store of a root, without a request to it.

    Raises:
        Stalled: SPEC_INVALID, there is no such store type.
        StoreDenied: credentials are missing.
    """
    if root.store:
        return _store_type(root).of(root)
    try:
        store = _open_built_in(root)
    except ModuleNotFoundError as error:
        extra = root.access_field
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{root.section}.url: {root.url} needs the Python package {error.name}, which is not "
            f"installed: pip install 'landfall[{extra}]', or an image built with it",
        ) from error
    if store is None:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{root.section}.url: no store for {root.url}; name one of your own in "
            f"{root.section}.store",
        )
    return store


def _open_built_in(root: spec.Root) -> Store | None:
    # Each client library takes 0.1 to 0.5 s to import, and may not be installed.
    scheme, _, rest = root.url.partition("://")
    host, _, path = rest.partition("/")
    match scheme:
        case "s3":
            from landfall.store.s3.store import S3Store  # noqa: PLC0415

            return S3Store(host, path, root.s3)
        case "abfss":
            from landfall.store.azure.store import AzureStore  # noqa: PLC0415

            container, _, account = host.partition("@")
            return AzureStore(account, container, path, root.azure)
        case "gs":
            from landfall.store.gcs.store import GcsStore  # noqa: PLC0415

            return GcsStore(host, path, root.gcs)
        case "hdfs":
            from landfall.store.hdfs.store import HdfsStore  # noqa: PLC0415

            return HdfsStore(host, unquote(path), root.hdfs)
        case "file":
            from landfall.store.file import FileStore  # noqa: PLC0415

            return FileStore(Path("/", unquote(path)))
    return None


def open_files(feed: spec.Feed) -> SourceFiles:
    """Where the files of a feed are, without a request to it.

    Raises:
        StoreDenied: credentials are missing.
    """
    scheme, _, rest = feed.url.partition("://")
    if scheme == "file":
        from landfall.store.folder_files import FolderFiles  # noqa: PLC0415

        return FolderFiles(Path("/", unquote(rest.partition("/")[2])))
    from landfall.store.s3.files import S3Files  # noqa: PLC0415

    bucket, _, prefix = rest.partition("/")
    return S3Files(bucket, prefix, feed.s3)


def _store_type(root: spec.Root) -> StoreType:
    module, _, name = (root.store or "").partition(":")
    try:
        found: StoreType = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{root.section}.store: {root.store!r}: {error}"
        ) from error
    return found
