"""Delta tables in stores other than S3 and folders, as delta-rs's own clients read them."""

import json
from collections.abc import Callable, Mapping

from dev.servers.azure import ACCOUNT, KEY
from tests.support.places import Place


def _azure(place: Place) -> dict[str, str]:
    return {
        "azure_endpoint": place.output["azure"]["endpoint"],
        "account_name": ACCOUNT,
        "account_key": KEY,
        "allow_http": "true",
    }


def _gcs(place: Place) -> dict[str, str]:
    key = {
        "gcs_base_url": place.output["gcs"]["endpoint"],
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    return {"google_service_account_key": json.dumps(key)}


STORAGE: Mapping[str, Callable[[Place], dict[str, str]]] = {
    "azure": _azure,
    "gcs": _gcs,
    "hdfs": lambda _: {},
}
"""The storage options that reach each kind of store."""
STORE_CLASSES: Mapping[str, str] = {
    "azure": "landfall.store.azure.store.AzureStore",
    "gcs": "landfall.store.gcs.store.GcsStore",
    "hdfs": "landfall.store.hdfs.store.HdfsStore",
}
"""The classes by which Landfall reaches them."""


def tables_of(place: Place) -> str:
    """The folder with a folder for each table, next to the output root."""
    return f"{place.output['url']}-tables"
