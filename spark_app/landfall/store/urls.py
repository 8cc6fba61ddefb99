"""Opens the store of a root by the scheme of its URL, or a custom one.

``spec.output.store: package.module:Name`` names a custom store, which interprets the URL itself;
see ``StoreType``.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from landfall.api import spec
from landfall.errors import Reason, Stalled, how_to_install
from landfall.store import SourceFiles, Store, StoreType


def open_store(root: spec.Root) -> Store:
    """The store of a root, without a request to it.

    Raises:
        Stalled: SPEC_INVALID, there is no such store type.
        StoreDenied: credentials are missing.
    """
    if root.store:
        return _store_type(root).of(root)
    with _clear_if_missing(f"{root.section}.url: {root.url}", root.access_field):
        store = _open_built_in(root)
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
        Stalled: SPEC_INVALID, the library for this kind of store is not installed.
        StoreDenied: credentials are missing.
    """
    with _clear_if_missing(f"source.files: {feed.topic}: {feed.url}", feed.access_field):
        return _open_files(feed)


def _open_files(feed: spec.Feed) -> SourceFiles:
    scheme, _, rest = feed.url.partition("://")
    host, _, path = rest.partition("/")
    match scheme:
        case "abfss":
            from landfall.store.azure.files import AzureFiles  # noqa: PLC0415

            container, _, account = host.partition("@")
            return AzureFiles(account, container, path, feed.azure)
        case "gs":
            from landfall.store.gcs.files import GcsFiles  # noqa: PLC0415

            return GcsFiles(host, path, feed.gcs)
        case "hdfs":
            from landfall.store.hdfs.files import HdfsFiles  # noqa: PLC0415

            return HdfsFiles(host, unquote(path), feed.hdfs)
        case "file":
            from landfall.store.folder_files import FolderFiles  # noqa: PLC0415

            return FolderFiles(Path("/", unquote(path)))
    from landfall.store.s3.files import S3Files  # noqa: PLC0415

    return S3Files(host, path, feed.s3)


@contextmanager
def _clear_if_missing(where: str, extra: str) -> Iterator[None]:
    """Name the extra with a package that is imported inside and not installed.

    Raises:
        Stalled: SPEC_INVALID, that package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{where} needs the Python package {error.name}, which is not installed: "
            f"{how_to_install(extra)}, or take an image built with it",
        ) from error


def _store_type(root: spec.Root) -> StoreType:
    module, _, name = (root.store or "").partition(":")
    try:
        found: StoreType = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{root.section}.store: {root.store!r}: {error}"
        ) from error
    return found
