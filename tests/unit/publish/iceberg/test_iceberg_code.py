"""A catalog, or whoever may change its tables, runs nothing where the publisher runs."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyiceberg
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.locations import SimpleLocationProvider

from landfall.errors import Reason, Stalled
from landfall.publish.building import publisher
from tests.support.publishers.lake import CLICKS, Landed

IMPORTS = {
    "catalog/__init__.py": 1,  # `py-catalog-impl`, of the properties that the group's spec has
    "catalog/rest/auth.py": 1,
    "io/__init__.py": 1,
    "io/pyarrow.py": 1,
    "table/locations.py": 1,
    "transforms.py": 1,  # fixed names
}


class OwnLocations(SimpleLocationProvider):
    """A class that a group may name."""


class OwnFiles(PyArrowFileIO):
    """Another one."""


@contextmanager
def answering(config: dict[str, Any]) -> Iterator[str]:
    """A REST catalog with such a configuration, and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(config if self.path.startswith("/v1/config") else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def configurations(mark: Path) -> dict[str, dict[str, Any]]:
    """Answers of a catalog, each of which makes pyiceberg create a file."""
    touch = {"/usr/bin/touch": "", str(mark): ""}  # Popen takes the keys of a dict for arguments
    popen = {"type": "custom", "impl": "subprocess.Popen", "custom": {"args": ["touch", str(mark)]}}
    return {
        "auth": {"defaults": {}, "overrides": {"auth": popen}},
        "py-io-impl": {"defaults": touch, "overrides": {"py-io-impl": "subprocess.Popen"}},
    }


@pytest.mark.parametrize("name", ["auth", "py-io-impl"])
def test_the_configuration_of_a_catalog_runs_nothing(tmp_path: Path, name: str) -> None:
    landed, mark = Landed(tmp_path).land(CLICKS).settle(), tmp_path / "ran"
    with answering(configurations(mark)[name]) as uri:
        context = landed.context("Iceberg", {"catalog": {"type": "rest", "uri": uri}})
        built = publisher(context.group, context.entry, context.store)

        with pytest.raises(Stalled, match=f"property {name} of the catalog's conf") as caught:
            built.publish(context.follower())

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert not mark.exists()


def catalog_of(root: Path) -> dict[str, Any]:
    uri = f"sqlite:///{root}/catalog.db"
    return {"type": "sql", "uri": uri, "warehouse": f"file://{root}/warehouse"}


def with_property(landed: Landed, name: str, value: str) -> dict[str, Any]:
    """Publish a table, and set a property of it; returns the catalog's options."""
    catalog = catalog_of(landed.root)
    publish(landed, catalog=catalog)
    with load_catalog("landfall", **catalog).load_table("lake.clicks").transaction() as changing:
        changing.set_properties({name: value})
    return catalog


def publish(landed: Landed, **options: Any) -> int:
    landed.land(CLICKS).settle()
    context = landed.context("Iceberg", options)
    built = publisher(context.group, context.entry, context.store)
    return int(built.publish(context.follower()).objects)


OWN, OWN_FILES = f"{__name__}.OwnLocations", f"{__name__}.OwnFiles"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("py-io-impl", OWN_FILES),
        ("s3.retry-strategy-impl", "antigravity.fly"),
        ("write.py-location-provider.impl", OWN),
    ],
)
def test_a_property_of_a_table_names_no_code(tmp_path: Path, name: str, value: str) -> None:
    landed = Landed(tmp_path)
    catalog = with_property(landed, name, value)

    with pytest.raises(Stalled, match=f"property {name} of the table at .*, '{value}'") as caught:
        publish(landed, catalog=catalog)

    assert caught.value.reason is Reason.DESTINATION_CONFLICT


def test_what_the_group_names_as_well_is_imported(tmp_path: Path) -> None:
    name = "write.py-location-provider.impl"
    landed = Landed(tmp_path)
    catalog = with_property(landed, name, OWN)

    assert publish(landed, catalog={**catalog, name: OWN}) == 1
    assert publish(landed, catalog=catalog, properties={name: OWN}) == 1
    with pytest.raises(Stalled, match=name):
        publish(landed, catalog={**catalog, name: f"{OWN}s"})


def test_a_table_may_choose_among_the_classes_of_pyiceberg(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    catalog = with_property(landed, "py-io-impl", "pyiceberg.io.pyarrow.PyArrowFileIO")

    assert publish(landed, catalog=catalog) == 1


def test_all_places_where_pyiceberg_imports_by_name_are_known() -> None:
    """A release with another one is looked through before it is taken."""
    root = Path(pyiceberg.__file__).parent
    found = {
        file.relative_to(root).as_posix(): len(re.findall(r"import_module\(", file.read_text()))
        for file in root.rglob("*.py")
    }

    assert {name: count for name, count in found.items() if count} == IMPORTS
