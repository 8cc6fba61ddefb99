"""Asks a driver for files, and tells it what became of them.

It needs nothing but Python: Airflow finds it beside the DAG, and Argo mounts it from a ConfigMap.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE_SECONDS = 300
"""How long a driver is asked again that does not answer, such as one that is being replaced."""
TIMEOUT_SECONDS = 60
"""Longer than a driver lets a request wait before it answers."""
REFUSED = (400, 401, 404, 409)
"""The status codes after which nothing was recorded; after others it may have been."""


class Refused(Exception):  # noqa: N818  # names what happened
    """Nothing was recorded, and to ask again would not help: the message says why.

    If a lease is over, its files may be somebody else's: what was made of them must not count.
    """


class Failed(Exception):  # noqa: N818  # names what happened
    """A file could not be processed, and the driver knows."""


@dataclass(frozen=True)
class Driver:
    """The control port of a driver.

    Attributes:
        url: such as ``http://hits-driver.NAMESPACE.svc:8081``.
        token: what is under the key ``token`` in the Secret ``hits-control``.
        who: whoever takes files; the ledger names it as the holder of a lease.
    """

    url: str
    token: str
    who: str

    def ask(self, verb: str, **fields: Any) -> Any:
        """The answer to a request, which is sent until there is one.

        Args:
            verb: ``files-take``, ``files-done``, ``files-failed``, ``files-return`` or
                ``files-extend``.
            fields: its fields. With the same ``id`` it has the effect of being sent once.

        Raises:
            Refused: the driver refuses it.
            OSError: the driver did not answer for ``PATIENCE_SECONDS``.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                status, body = self._send(verb, {"who": self.who, **fields})
            except (OSError, http.client.HTTPException) as error:
                problem = repr(error)
            else:
                if status == 200:
                    return json.loads(body)
                problem = f"{verb} was answered with {status}: {body}"
                if status in REFUSED:
                    raise Refused(problem)
            if time.monotonic() > deadline:
                raise OSError(f"{self.url}: {problem}")
            time.sleep(1)

    @contextmanager
    def processing(self, file: Any, run: str, lease_seconds: int) -> Iterator[None]:
        """Within the block a file is processed: it is done if the block ends, else it has failed.

        Args:
            file: one of those that were taken, with its ``lease``.
            run: what makes the ids of requests this run's own.
            lease_seconds: how long the lease lasts at least, from now on.

        Raises:
            Failed: the block raised something. The driver offers the file again.
            Refused: the lease is over, or has this file no more.
            OSError: the driver did not answer for ``PATIENCE_SECONDS``.
        """
        lease, number = file["lease"], file["number"]
        self.ask("files-extend", lease=lease, leaseSeconds=lease_seconds)
        one = {"lease": lease, "numbers": [number]}
        try:
            yield
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:2000]
            self.ask("files-failed", **one, why=why, id=f"{run}/failed/{number}")
            raise Failed(f"{file['name']}: {why}") from error
        self.ask("files-done", **one, id=f"{run}/done/{number}")

    def _send(self, verb: str, document: Any) -> tuple[int, str]:
        """The status code and the body of an answer."""
        request = urllib.request.Request(  # noqa: S310  # the address of a driver
            f"{self.url}/control/{verb}",
            json.dumps(document).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
