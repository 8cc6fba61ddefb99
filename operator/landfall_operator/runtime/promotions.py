"""Asks the driver of a group to promote a backfill, by its control port.

Unlike a command, the request is answered with its outcome. ``landfall promote-backfill``
sends the same request, and asking again with the same id waits on, so nothing is done twice.
"""

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol, get_args

import aiohttp

from landfall_operator.core.backfill_snapshot import PromotionAnswer, PromotionOutcome
from landfall_operator.objects.names import OPERATOR
from landfall_operator.runtime.control_port import (
    ControlPort,
    Credentials,
    body_of,
    outcome_of,
    why_refused,
)
from landfall_operator.runtime.metrics import Metrics

PATH = "/control/promote"
TIMEOUT_SECONDS = 30.0
"""A driver answers that it is waiting after twenty seconds."""
_OUTCOMES = frozenset(get_args(PromotionOutcome))


class PromotionClient(Protocol):
    """The driver of a group, as a pass over a backfill sees it."""

    async def promote(
        self, address: str, credentials: Credentials, side_lane: str, id_: str
    ) -> PromotionAnswer:
        """Ask to promote a side lane, or ask again by the same id."""


class HttpPromotionClient:
    """Sends requests to the addresses of the drivers' pods."""

    def __init__(
        self,
        control: ControlPort,
        metrics: Metrics,
        before_request: Callable[[], None] = lambda: None,
    ) -> None:
        """``before_request`` is called before each request and prevents it by raising Fenced."""
        self._control = control
        self._metrics = metrics
        self._before_request = before_request

    async def promote(
        self, address: str, credentials: Credentials, side_lane: str, id_: str
    ) -> PromotionAnswer:
        """See ``PromotionClient``."""
        self._before_request()
        outcome = "error"
        try:
            document = {"name": side_lane, "who": OPERATOR, "why": "promote: Automatic", "id": id_}
            request = self._control.post(
                address, PATH, document, credentials, timeout_seconds=TIMEOUT_SECONDS
            )
            async with request as response:
                outcome = outcome_of(response.status)
                if response.status == HTTPStatus.UNAUTHORIZED:
                    why = why_refused(response)
                    return PromotionAnswer("failed", f"the group's driver refuses: {why}")
                return parse_answer(response.status, await body_of(response))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return PromotionAnswer("failed", f"the group's driver does not answer: {error}")
        finally:
            self._metrics.driver_requests.labels(PATH, outcome).inc()


def parse_answer(code: int, body: str | bytes) -> PromotionAnswer:
    """Parse a driver's answer."""
    if code == HTTPStatus.NOT_FOUND:
        return PromotionAnswer("failed", "the group's driver is of a release without promotion")
    try:
        answer = json.loads(body)
        outcome = answer["outcome"]
        message = str(answer.get("message", ""))
        is_known = outcome in _OUTCOMES
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return PromotionAnswer("failed", f"the group's driver answers {code}, and not what it does")
    if code == HTTPStatus.BAD_REQUEST or not is_known:
        return PromotionAnswer("failed", message or f"the group's driver answers {code}")
    found = re.search(r"\bslot (\d{1,18})\b", message)
    slot = int(found[1]) if found and outcome == "done" else None
    return PromotionAnswer(outcome, message, slot)
