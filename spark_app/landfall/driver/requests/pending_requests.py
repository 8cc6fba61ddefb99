"""Requests of engineers to a running driver, on their way from the HTTP threads to the driver's.

A request is carried out on the driver's thread, between two passes, because that thread alone
appends to the ledger. The client waits a while for the answer. If it takes longer, such as for a
batch in flight, the answer is WAITING, and asking again with the same id waits on: a request is
never carried out twice.
"""

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from landfall.api.verbs import Answer, LeaseRequest, Outcome, Request

PATIENCE = timedelta(seconds=20)
"""How long an HTTP request waits for its answer."""
KEPT_ANSWERS = 1000
"""How many answers are kept for clients that ask again."""


@dataclass(frozen=True)
class PendingRequest:
    """A request, and the answer that a client waits for."""

    request: Request
    answer: Future[Answer] = field(default_factory=Future)


class PendingRequests:
    """Thread-safe; ``submit`` is for any thread, the rest for the driver's."""

    def __init__(self, wake: Callable[[], object]) -> None:
        """``wake`` ends the wait of the driver's thread."""
        self.wake = wake
        self._lock = Lock()
        self._by_id: dict[str, PendingRequest] = {}
        self._waiting: list[PendingRequest] = []
        self._closed = ""

    def submit(self, request: Request, patience: timedelta = PATIENCE) -> Answer:
        """Let the driver carry the request out, unless it has one with this id; wait for it."""
        with self._lock:
            if self._closed:
                return Answer(Outcome.FAILED, message=self._closed)
            pending = self._by_id.get(request.id) if request.id else None
            if pending is None:
                pending = PendingRequest(request)
                self._waiting.append(pending)
                if request.id:
                    self._by_id[request.id] = pending
                    self._forget_oldest()
            elif pending.request != request:
                return Answer(
                    Outcome.REFUSED, message=f"id {request.id} names another request already"
                )
        self.wake()
        try:
            return pending.answer.result(patience.total_seconds())
        except FutureTimeoutError:
            return Answer(Outcome.WAITING, message="accepted; it waits for a batch in flight")

    def waiting(self) -> list[PendingRequest]:
        """Requests without an answer, in the order in which they came."""
        with self._lock:
            return list(self._waiting)

    def finish(self, pending: PendingRequest, answer: Answer) -> None:
        """Answer a request; one that failed may be asked again under the same id.

        So may one about files that are taken, since the ledger remembers those ids: the answer
        reports what holds then.
        """
        with self._lock:
            self._waiting.remove(pending)
            if answer.outcome is Outcome.FAILED or isinstance(pending.request, LeaseRequest):
                self._by_id.pop(pending.request.id, None)
        pending.answer.set_result(answer)

    def close(self, why: str) -> None:
        """Answer what waits, and everything that comes, with ``why``."""
        with self._lock:
            self._closed = why
            waiting = self._waiting
            self._waiting = []
        for pending in waiting:
            pending.answer.set_result(Answer(Outcome.FAILED, message=why))

    def _forget_oldest(self) -> None:
        done = [id_ for id_, pending in self._by_id.items() if pending.answer.done()]
        for id_ in done[: max(0, len(self._by_id) - KEPT_ANSWERS)]:
            del self._by_id[id_]
