"""The roots of a group: where its objects are, and its ledger, in which stores."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, TypeAlias, TypedDict

from pydantic import model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.s3 import S3
from landfall.api.spec.stores import SCHEMES, Azure, Gcs, Hdfs, StoreAccess, section_of
from landfall.api.values import matching

URL_PATTERN = "(s3|gs)://[^/]+(/.*)?|abfss://[^/@]+@[^/@]+(/.*)?|hdfs://[^/]+/.+|file:///.+"
"""The URLs of the stores that Landfall has."""
Url: TypeAlias = Annotated[
    str,
    matching(r"[a-z][a-z0-9+.-]*://.+", "a URL such as s3://BUCKET/PREFIX or file:///FOLDER"),
]


_SIDE = re.compile("/_landfall/[^/]+/side/[^/]+$")
"""The root of a backfill, in another root: ``ledger.names.roots.side_root``."""


StoreType: TypeAlias = Annotated[str, matching(r"[\w.]+:\w+", "package.module:Name")]


class Access(TypedDict, total=False):
    """How stores are accessed, for those that are accessed otherwise than by default."""

    s3: S3
    azure: Azure
    gcs: Gcs
    hdfs: Hdfs


class Root(Model):
    """A prefix or folder of a store, and how the store is accessed."""

    section: ClassVar[str] = "output"
    """The section of ``spec`` that this is."""

    url: Url
    """URL of the root."""
    store: StoreType | None = None
    """Import path of a custom store, which interprets ``url`` itself."""
    s3: S3 = S3()
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""

    azure: Azure = Azure()
    """How to access Azure Blob Storage. Without credentials here, the default chain of Azure's
    library is used, such as workload identity.
    """
    gcs: Gcs = Gcs()
    """How to access Google Cloud Storage. Without credentials here, the application default
    credentials are used, such as workload identity.
    """
    hdfs: Hdfs = Hdfs()
    """How to access HDFS."""

    @property
    def access(self) -> StoreAccess:
        """The section of the store that ``url`` names; ``s3`` for one without a section."""
        access: StoreAccess = getattr(self, self.access_field)
        return access

    @property
    def access_field(self) -> str:
        """The name of that section."""
        return section_of(self.url)

    @property
    def kind(self) -> str:
        """The kind of store, for metrics: its section's name, ``file`` or ``custom``."""
        scheme = self.url.partition("://")[0]
        return "custom" if self.store else SCHEMES.get(scheme, scheme)

    @model_validator(mode="after")
    def _store_is_known(self) -> "Root":
        if not self.store and not re.fullmatch(URL_PATTERN, self.url):
            raise ValueError(
                "url is none of s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, "
                "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX and file:///FOLDER, "
                f"and no store of your own is named: {self.url!r}"
            )
        return self


class Ledger(Root):
    """Where the ledger is, if not in the output root."""

    section: ClassVar[str] = "ledger"

    url: Url
    """Root of the ledger, such as ``s3://ledgers/clicks``, for this group alone. It is not in the
    output root, nor the output root in it.
    """


class LettersPlace(Root):
    """Where dead letters were before."""

    section: ClassVar[str] = "badRecords.formerPlaces"

    url: Url
    """Root of the place, as ``badRecords.url`` was."""

    @property
    def id(self) -> str:
        """The name of this place in keys of dead letters: by its URL and its server.

        The root of a backfill in it has the same.
        """
        url = _SIDE.sub("", self.url.rstrip("/"))
        text = json.dumps([url, self.access.endpoint or ""])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class PresentPlace(LettersPlace):
    """``spec.badRecords.url``, with how it is accessed."""

    section: ClassVar[str] = "badRecords"


def roots_above(url: str) -> Iterator[str]:
    """Every root that this one is inside."""
    scheme, _, path = url.rstrip("/").partition("://")
    folders = path.split("/")
    for count in range(1, len(folders)):
        yield f"{scheme}://{'/'.join(folders[:count])}"
