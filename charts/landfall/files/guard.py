"""Run before `helm uninstall`: fails while this release's operator manages ConsumerGroups.

Without an operator their drivers keep landing, and a group that is deleted stays until its
finalizer is removed by hand. It runs with the operator's account.
"""

import json
import ssl
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API_URL = "https://kubernetes.default.svc/apis/landfall.dev/v1alpha1"
HOLDER = "landfall.dev/operator"
FINALIZER = "landfall.dev/drain"
MAX_SHOWN = 10

Fetch = Callable[[str], dict[str, Any]]
"""Returns the JSON at a path below the API's URL."""


def fetch(path: str) -> dict[str, Any]:
    """Ask the API server."""
    request = urllib.request.Request(
        f"{API_URL}{path}", headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=30, context=trusted) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def managed(operator: str, namespaces: list[str], ask: Fetch = fetch) -> Iterator[str]:
    """Yield the groups that an operator manages, in these namespaces; in all if none is given."""
    for scope in [f"/namespaces/{name}" for name in namespaces] or [""]:
        rest = ""
        while True:
            page = ask(f"{scope}/consumergroups?limit=500&continue={urllib.parse.quote(rest)}")
            for group in page["items"]:
                metadata = group["metadata"]
                holder = metadata.get("annotations", {}).get(HOLDER, operator)
                if holder == operator and FINALIZER in metadata.get("finalizers", []):
                    yield f"{metadata['namespace']}/{metadata['name']}"
            rest = page["metadata"].get("continue", "")
            if not rest:
                break


def main(operator: str, *namespaces: str) -> None:
    """Exit with a message if there is a group."""
    found = list(managed(operator, list(namespaces)))
    if found:
        more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
        sys.exit(
            f"the operator {operator} manages {', '.join(found[:MAX_SHOWN])}{more}: delete these "
            "groups first, or leave their drivers running without an operator by "
            "helm uninstall --no-hooks"
        )
    print("no group is left")


if __name__ == "__main__":
    main(*sys.argv[1:])
