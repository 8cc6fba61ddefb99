"""Kafka: events as messages of a topic, each exactly once for readers of committed records.

A transaction for each stretch of the ledger holds its events and moves the position: see
``kafka_transactions``. Kafka deletes offsets that are not committed for a week, so the position is
committed again every few hours. The cursor next to the ledger records through where events are
sent, and before a transaction through where it will send some. If Kafka has lost the position
nevertheless, the cursor's is used, unless that leaves open whether the last transaction was
committed.

Source: CloudEvents, "Kafka Protocol Binding for CloudEvents - Version 1.0.2", section 3.3, in
structured mode, with the attributes as headers as well.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import msgspec

from landfall.errors import LandfallError, Reason, Stalled
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Published, Publisher
from landfall.publish.context import Context
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.events import CONTENT_TYPE, Event, EventKind, Events
from landfall.publish.events.kafka_transactions import (
    RESERVED,
    BrokerState,
    Destination,
    Message,
    Session,
    look,
)
from landfall.publish.events.sending import ANEW, event_kinds, last_slot, starts_now
from landfall.publish.following import Follower
from landfall.source.properties import kafka_properties, secret_properties

REFRESH_SECONDS = 6 * 3600.0
"""The maximum age of the offset with the position: Kafka keeps one for a week by default."""
_SENDING = "sending"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The options of the type ``Kafka``."""

    topic: str
    events: tuple[str, ...] = ()
    start: str = "Beginning"
    bootstrap_servers: str = ""
    properties: dict[str, str | int | float | bool] = {}


@dataclass
class KafkaPublisher:
    """Sends events to a topic; see ``Publisher``.

    Attributes:
        context: what it is built from.
        events: what is sent.
        destination: where to, by the properties of this moment.
        starts_now: whether a new publisher skips what landed before.
        monotonic: counts seconds from any start.
    """

    context: Context
    events: Events
    destination: Callable[[], Destination]
    starts_now: bool = False
    monotonic: Callable[[], float] = time.monotonic
    _open: "_Open | None" = field(default=None, init=False)

    def publish(self, follower: Follower) -> Published:
        """See ``Publisher``."""
        with self._session(follower) as session:
            # Before anything is sent: after the first message Kafka has a position.
            session.refresh()
            done = Published(session.through)
            for stretch in follower.stretches(done.through):
                events = list(self.events.of(stretch))
                session.send(list(map(_message, events)), stretch.through)
                done.through = stretch.through
                done.slots += stretch.through - stretch.after
                done.objects += len(stretch.objects)
            return done

    def position(self) -> int:
        """See ``Publisher``."""
        if self._open is not None and not self._open.is_closed:
            return self._open.through
        return self._look()

    def preview(self, follower: Follower) -> Iterator[str]:
        """See ``Publisher``."""
        for stretch in follower.stretches(self._look()):
            for event in self.events.of(stretch):
                yield str(event)

    def reset(self, follower: Follower) -> None:  # noqa: ARG002  # of the protocol
        """See ``Publisher``."""
        if self._open is not None:
            self._open.close()
            self._open = None
        to = self.destination()
        session = Session(to)
        try:
            session.send([], -1)
            self.context.cursor(_cursor_name(session.found, to)).write(ANEW)
        finally:
            session.close()

    def _look(self) -> int:
        to = self.destination()
        found = look(to)
        return position(found, self.context.cursor(_cursor_name(found, to)), to)

    def _session(self, follower: Follower) -> "_Open":
        if self._open is None or self._open.is_closed:
            session = Session(self.destination())
            cursor = self.context.cursor(_cursor_name(session.found, session.to))
            try:
                through = position(session.found, cursor, session.to)
                is_new = session.found.through is None and cursor.read() == Position()
                if self.starts_now and is_new:
                    through = last_slot(follower)
            except LandfallError:
                session.close()
                raise
            self._open = _Open(session, cursor, through, self.monotonic)
        return self._open


@dataclass
class _Open:
    """A session with its position; an error ends it."""

    session: Session
    cursor: PublisherCursor
    through: int
    monotonic: Callable[[], float]
    sent_at: float = float("-inf")
    is_closed: bool = False

    def send(self, messages: list[Message], through: int) -> None:
        self.cursor.write(Position(self.through, {_SENDING: through}))
        self.session.send(messages, through)
        self.through, self.sent_at = through, self.monotonic()
        self.cursor.write(Position(through))

    def refresh(self) -> None:
        """Commit the position again, if the last commit is old."""
        if self.monotonic() - self.sent_at > REFRESH_SECONDS:
            self.send([], self.through)

    def close(self) -> None:
        self.is_closed = True
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.close()


def position(found: BrokerState, cursor: PublisherCursor, to: Destination) -> int:
    """The position: Kafka's, or the cursor's if Kafka has none.

    Raises:
        Stalled: DESTINATION_CONFLICT, neither shows whether the last transaction was committed.
    """
    if found.through is not None:
        return found.through
    at = cursor.read()
    sending = at.tables.get(_SENDING, at.through)
    if sending > at.through:
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"topic {to.topic}: Kafka has no offset of the group {to.name} any more, and it is "
            f"unknown whether the events of slots {at.through + 1}-{sending} are there: set the "
            f"group's offset of partition 0 to {sending + 1} if they are, to {at.through + 1} if "
            "not, or publish everything again with --rebuild",
        )
    return at.through


def _cursor_name(found: BrokerState, to: Destination) -> str:
    return f"kafka {found.cluster} {to.topic}"


def _message(event: Event) -> Message:
    attributes = ((f"ce_{name}", text.encode()) for name, text in event.attributes.items())
    headers = (("content-type", CONTENT_TYPE.encode()), *attributes)
    return Message(event.subject.encode(), event.encode(), headers)


class KafkaEvents:
    """The type ``Kafka``."""

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """See ``PublisherType``."""
        read = read_options(options, Options)
        if not _TOPIC.fullmatch(read.topic):
            raise ValueError(f"option topic: not the name of a topic: {read.topic!r}")
        if context.group.spec.source.selects(read.topic) and not read.bootstrap_servers:
            raise ValueError(
                f"option topic: the group lands {read.topic} itself, so that events would lead "
                "to events for ever"
            )
        own = {key: _text(value) for key, value in read.properties.items()}
        if reserved := sorted(RESERVED & own.keys()):
            raise ValueError(f"option properties: landfall sets {', '.join(reserved)} itself")
        events = Events(context, event_kinds(read.events, EventKind))
        now = starts_now(read.start)
        to = partial(_destination, read, own, context, events)
        return KafkaPublisher(context, events, to, now)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _destination(
    options: Options, own: Mapping[str, str], context: Context, events: Events
) -> Destination:
    """The destination, with secrets as they are now.

    Raises:
        Stalled: SPEC_INVALID, a secret is not there, or has a property that Landfall sets.
    """
    group = context.group
    spec_field = f"spec.publish[{group.spec.publish.index(context.entry)}]"
    secret = secret_properties(context.secret(), f"{spec_field}.secretRef")
    if reserved := sorted(RESERVED & secret.keys()):
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{spec_field}.secretRef: landfall sets {', '.join(reserved)} itself",
        )
    if options.bootstrap_servers:
        cluster: Mapping[str, str] = {"bootstrap.servers": options.bootstrap_servers}
    else:
        cluster = kafka_properties(group)
    name = f"{group.metadata.namespace}.{group.metadata.name}.{context.lane}.{context.name}"
    return Destination(
        topic=options.topic,
        name=f"landfall.{name}",
        ledger=events.source,
        properties={**cluster, **own, **secret},
        field=f"{spec_field}.options.properties",
    )
