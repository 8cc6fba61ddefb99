"""Sends requests to a running driver's control port."""

import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import msgspec

from landfall import untrusted_json
from landfall.api.verbs import Answer, Outcome, Request, answer_type, verb_of
from landfall.errors import Reason, Retry, Stalled

TIMEOUT_SECONDS = 60
"""Longer than a driver holds a request before it answers."""
MAX_WAIT_SECONDS = 600
"""How long a request that waits for a batch in flight is repeated."""


@dataclass(frozen=True, slots=True)
class DriverControl:
    """A driver's control port.

    Attributes:
        url: without a path.
        token: what the requests carry.
    """

    url: str
    token: str

    @classmethod
    def of(cls, url: str, token_file: Path) -> "DriverControl":
        """The control port at a URL, with the token in a file.

        Raises:
            Stalled: SPEC_INVALID, the URL is none, or the file cannot be read.
        """
        if not url.startswith(("http://", "https://")):
            raise Stalled(
                Reason.SPEC_INVALID, f"--driver {url}: not a URL such as http://host:8081"
            )
        try:
            return cls(url.rstrip("/"), token_file.read_text().strip())
        except OSError as error:
            raise Stalled(Reason.SPEC_INVALID, f"{token_file}: {error.strerror}") from error

    def ask(self, request: Request, max_wait: float = MAX_WAIT_SECONDS) -> Answer:
        """Send a request, and wait as long as the driver reports that it is waiting.

        Raises:
            Retry: the driver does not answer.
            Stalled: SPEC_INVALID, it does not accept the token or the request.
        """
        deadline = time.monotonic() + max_wait
        while True:
            answer = self._ask_once(request)
            if answer.outcome is not Outcome.WAITING or time.monotonic() > deadline:
                return answer

    def _ask_once(self, request: Request) -> Answer:
        verb = verb_of(request)
        asked = urllib.request.Request(  # noqa: S310  # the scheme is checked above
            f"{self.url}/control/{verb}",
            msgspec.json.encode(request),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
                return self._decode(response.read(), request)
        except urllib.error.HTTPError as error:
            if error.code == 401:
                raise Stalled(
                    Reason.SPEC_INVALID, f"{self.url}: the driver has another control token"
                ) from error
            if error.code == 404:
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"{self.url}: no control port of a driver that knows {verb}",
                ) from error
            return self._decode(error.read(), request)
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise Retry(f"the driver at {self.url} does not answer: {reason}") from error

    def _decode(self, body: bytes, request: Request) -> Answer:
        try:
            return untrusted_json.decode(body, type=answer_type(request))
        except msgspec.DecodeError as error:
            raise Retry(f"{self.url}: not the answer of a driver: {error}") from error
