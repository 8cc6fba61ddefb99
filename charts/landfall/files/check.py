"""What ``helm test`` runs: the API serves ConsumerGroups, and the operator says it is ready.

It needs no rights: what is served may be asked by anybody who has a name.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVED = "https://kubernetes.default.svc/apis/landfall.dev/v1alpha1"
PATIENCE = 60
"""Seconds."""


def kinds() -> list[str]:
    """What the API serves of ours."""
    request = urllib.request.Request(
        SERVED, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=trusted) as answer:
        return [
            resource["kind"]
            for resource in json.load(answer)["resources"]
            if "/" not in resource["name"]
        ]


def ready(operator: str) -> str:
    """What the operator says of itself; an HTTPError if it is not ready."""
    with urllib.request.urlopen(
        f"http://{operator}:8080/readyz", timeout=10
    ) as answer:  # our own Service
        return str(answer.read().decode().strip())


def main(operator: str) -> None:
    """Try until both answer."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            print("the API serves", kinds(), "and", operator, "says", ready(operator), flush=True)
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"not ready after {PATIENCE} s: {error}")
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main(sys.argv[1])
