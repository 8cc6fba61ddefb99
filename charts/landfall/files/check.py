"""Run by ``helm test``: succeeds when the API serves ConsumerGroups and the operator is ready.

It needs no RBAC rules: every authenticated client may list the served resources.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DISCOVERY_URL = "https://kubernetes.default.svc/apis/landfall.dev/v1alpha1"
TIMEOUT_SECONDS = 60


def kinds() -> list[str]:
    """The kinds of Landfall that the API server serves."""
    request = urllib.request.Request(
        DISCOVERY_URL, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=trusted) as answer:
        return [
            resource["kind"]
            for resource in json.load(answer)["resources"]
            if "/" not in resource["name"]
        ]


def ready(operator: str) -> str:
    """The operator's readiness message.

    Raises:
        HTTPError: The operator is not ready.
    """
    with urllib.request.urlopen(f"http://{operator}:8080/readyz", timeout=10) as answer:
        return str(answer.read().decode().strip())


def main(operator: str) -> None:
    """Retry until both answer; exits with a message after the timeout."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            print("the API server serves", kinds(), flush=True)
            print(operator, "is ready:", ready(operator), flush=True)
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"not ready after {TIMEOUT_SECONDS} s: {error}")
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main(sys.argv[1])
