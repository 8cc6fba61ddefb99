"""Where tests keep landed files and the tables that are published of them: folders, or a bucket."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.stores.aws_server import KEYS
from tests.support.stores.s3 import Bucket

DATABASE = "lake"


@dataclass(frozen=True)
class TablePlaces:
    """The places of one test: ``landed`` is the output, ``delta`` and ``warehouse`` have tables.

    Attributes:
        root: a folder of the test; a SQL catalog is always here.
        bucket: where landed files and tables are; None for ``root``.
        rest: the address of an Iceberg REST catalog to use instead of a SQL catalog.
        glue: the address of AWS Glue to use as catalog instead.
        is_around: whether the folder of a Delta table has its topic's objects in it.
    """

    root: Path
    bucket: Bucket | None = None
    rest: str = ""
    glue: str = ""
    is_around: bool = False

    @property
    def url(self) -> str:
        return self.bucket.url if self.bucket else f"file://{self.root}"

    @property
    def delta(self) -> str:
        """The folder with a folder for each Delta table."""
        return f"{self.url}/{'landed' if self.is_around else 'delta'}"

    @property
    def output(self) -> dict[str, Any]:
        """The fields of ``spec.output`` that name and access the output."""
        more = dict(self.bucket.output) if self.bucket else {}
        return {**more, "url": f"{self.url}/landed"}

    def options(self, kind: str) -> dict[str, Any]:
        """The options of a publisher that say where its tables are."""
        if kind == "Delta":
            return {"table": f"{self.delta}/{{topic}}"}
        if kind != "Iceberg":
            return {}
        return {"table": f"{DATABASE}.{{topic}}", "catalog": self.catalog}

    @cached_property
    def catalog(self) -> dict[str, str]:
        """What connects the publisher to the Iceberg catalog."""
        if self.rest:
            return {"type": "rest", "uri": self.rest, "warehouse": "w"}
        if self.glue:
            keys = {
                f"glue.{name.removeprefix('aws_').replace('_', '-')}": KEYS[name] for name in KEYS
            }
            where = {"glue.endpoint": self.glue, "glue.region": "us-east-1", **keys}
            return {"type": "glue", "warehouse": f"{self.url}/warehouse", **where}
        uri = f"sqlite:///{self.root}/catalog.db"
        return {"type": "sql", "uri": uri, "warehouse": f"{self.url}/warehouse"}

    @property
    def s3(self) -> dict[str, str]:
        """How an engine reaches the bucket: ``endpoint``, ``key`` and ``secret``."""
        if not self.bucket:
            return {}
        env = self.bucket.server.env
        return {
            "endpoint": self.bucket.server.endpoint,
            "key": env["AWS_ACCESS_KEY_ID"],
            "secret": env["AWS_SECRET_ACCESS_KEY"],
        }

    @property
    def files(self) -> dict[str, str]:
        """The properties of pyiceberg that reach the bucket."""
        if not self.bucket:
            return {}
        found = self.s3
        return {
            "s3.endpoint": found["endpoint"],
            "s3.access-key-id": found["key"],
            "s3.secret-access-key": found["secret"],
            "s3.region": "us-east-1",
        }

    def load(self, table: str) -> Any:
        """Load an Iceberg table by pyiceberg."""
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("landfall", **{**self.files, **self.catalog})
        return catalog.load_table(f"{DATABASE}.{table}")
