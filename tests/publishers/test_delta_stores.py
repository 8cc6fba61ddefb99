"""Delta tables in Azure, Google Cloud Storage and HDFS, read by delta-rs's own clients of these.

Landfall writes their logs through its own stores; delta-rs's clients of Azure and Google Cloud are
what other programs have.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from dev.servers.azure import ACCOUNT, KEY
from tests.support.places import Place, save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.publishers.lake import CLICKS, ORDERS, Landed
from tests.unit.publish.delta.test_delta import publish

STORAGE: dict[str, Callable[[Place], dict[str, str]]] = {
    "azure": lambda place: {
        "azure_endpoint": place.output["azure"]["endpoint"],
        "account_name": ACCOUNT,
        "account_key": KEY,
        "allow_http": "true",
    },
    "gcs": lambda place: {
        "google_service_account_key": json.dumps(
            {
                "gcs_base_url": place.output["gcs"]["endpoint"],
                "disable_oauth": True,
                "client_email": "",
                "private_key": "",
                "private_key_id": "",
            }
        )
    },
    "hdfs": lambda _: {},
}
"""How delta-rs reaches each kind of store."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    save_secrets(tmp_path / "secrets", SECRETS)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
    return KINDS[kind](request.getfixturevalue(kind))


@pytest.fixture
def tables(place: Place) -> str:
    """The folder with a folder for each table."""
    return f"{place.output['url']}-tables"


def offsets(table: str, storage: dict[str, str]) -> list[int]:
    found = QueryBuilder().register("t", DeltaTable(table, storage_options=storage))
    rows = found.execute("select _offset from t order by 1").read_all()
    result: list[int] = pa.table(rows)[0].to_pylist()
    return result


def test_a_table_has_each_row_once_as_other_programs_read_it(
    kind: str, place: Place, tables: str, tmp_path: Path
) -> None:
    landed = Landed(tmp_path, output=place.output).land(CLICKS, ORDERS).settle()
    context = landed.context("Delta", {"table": f"{tables}/{{topic}}"})
    publish(context)
    landed.land(CLICKS).land(CLICKS).settle()

    publish(context)

    storage = STORAGE[kind](place)
    assert offsets(f"{tables}/clicks", storage) == [*range(30)]
    assert offsets(f"{tables}/orders", storage) == [*range(10)]
