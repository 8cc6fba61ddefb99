"""Find faults of a group before anything runs: in its file, and in what the file names.

``file_faults`` asks no server. ``run`` and a driver pod raise what it finds before Spark starts,
and ``landfall check`` prints it; so both refuse the same groups. ``server_faults`` asks everything
that the group names, and writes nothing but the objects of the probe, which it deletes. A fault of
the file hides no fault of a server that another part of the file describes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from urllib.parse import urlsplit

from confluent_kafka import Consumer

from landfall import registry
from landfall.api.spec import (
    ConsumerGroup,
    Feed,
    LandedPlace,
    Root,
    TopicSpecs,
)
from landfall.api.spec.decode import SchemaRegistry
from landfall.driver.process.ledger_root import check_marks
from landfall.driver.process.startup import (
    HEAD,
    Servers,
    check_secret,
    check_secrets,
    kafka_servers,
    store_servers,
)
from landfall.errors import LandfallError, Reason, Retry, SourceAway, Stalled, StoreAway
from landfall.landed.opening import open_landed
from landfall.lane import output_owner
from landfall.lane.stores import open_stores
from landfall.network import Address, trouble
from landfall.publish.building import publisher_faults
from landfall.schemas.client import RegistryClient, RegistryOptions
from landfall.source.kafka import KafkaLog
from landfall.source.properties import LOG_PROPERTIES, create_client, kafka_properties
from landfall.store.lifecycle import settings_warning
from landfall.store.probe import probe
from landfall.store.urls import open_files, open_store

Faults = Iterator[LandfallError]

_OF_STORES = frozenset({"output", "ledger", "badRecords"})
"""Sections of a spec that name stores of the group."""

_ANSWER_TIMEOUT = timedelta(seconds=10)
_SUBJECT = "landfall-check"
"""A subject that a registry need not have: it is asked for to see whether the registry answers."""
_ADDRESS_OPTIONS = frozenset({"uri", "url", "endpoint", "metastore"})
"""Options of publishers that name a server."""


def require_sound(group: ConsumerGroup) -> None:
    """Return if nothing is wrong with what the group's file holds.

    Raises:
        Stalled: SPEC_INVALID with all faults, a line each, if that is what all of them are.
        Retry: credentials are missing.
    """
    faults = list(file_faults(group))
    wrong = [fault for fault in faults if isinstance(fault, Stalled)]
    if wrong:
        raise Stalled(wrong[0].reason, "\n".join(map(str, wrong)))
    for fault in faults:
        raise fault


def file_faults(group: ConsumerGroup) -> Faults:
    """Yield what is wrong without a question to any server; each message begins with the field."""
    yield from registry.faults(group)
    of_secrets = list(_secret_faults(group))
    yield from of_secrets
    if group.spec.source.kafka:
        yield from _raised(partial(_check_properties, group))
    if not of_secrets:  # clients would name the same secrets again, without their fields
        yield from _client_faults(group)


def _client_faults(group: ConsumerGroup) -> Faults:
    source = group.spec.source
    for feed in source.files:
        yield from _raised(partial(open_files, feed))
    for named in (source.landed, source.read_from):
        if named is not None:
            yield from _raised(partial(open_store, named.root))
    try:
        store = open_stores(group.spec)
    except LandfallError as error:
        yield error
    else:
        yield from publisher_faults(group, store)


def server_faults(group: ConsumerGroup, wrong: Collection[str] = ()) -> Faults:
    """Yield what is wrong with the servers that the group names, asking each once.

    A server is asked only if the part of the file about it is right: ``file_faults`` reports the
    rest. A ``Stalled``, or a refusal of the store, needs a user; another error may pass.

    Args:
        group: the group, or its sound sections.
        wrong: the sections of its spec that were left out.
    """
    if "source" not in wrong:
        yield from _kafka_faults(group)
        yield from _source_faults(group)
    if _OF_STORES.isdisjoint(wrong):
        yield from _store_faults(group)
    yield from _registry_faults(group)
    yield from _publisher_faults(group)


def advice(group: ConsumerGroup) -> str:
    """Return what to change in the store's settings; empty if nothing, or if it does not answer."""
    with suppress(LandfallError):
        return settings_warning(open_stores(group.spec))
    return ""


def _secret_faults(group: ConsumerGroup) -> Faults:
    for field, place in _places(group):
        yield from _raised(partial(check_secrets, (place,), field))
    for field, named in _registries(group):
        if secret := named.secret_ref:
            yield from _raised(partial(check_secret, secret, "registry", f"{field}.secretRef: "))
    for number, entry in enumerate(group.spec.publish):
        if secret := entry.secret_ref:
            field = f"spec.publish[{number}].secretRef: "
            yield from _raised(partial(check_secret, secret, entry.type, field))


def _places(group: ConsumerGroup) -> Iterator[tuple[str, Root | Feed | LandedPlace]]:
    """Everything in a store that the group names, with its field."""
    for root in group.spec.roots:
        yield f"spec.{root.section}", root
    for number, feed in enumerate(group.spec.source.files):
        yield f"spec.source.files[{number}]", feed
    for named in (group.spec.source.landed, group.spec.source.read_from):
        if named is not None:
            yield named.field, named


def _registries(group: ConsumerGroup) -> Iterator[tuple[str, SchemaRegistry]]:
    """Every registry that the group names, with its field."""
    for path, used in TopicSpecs.of(group.spec).used():
        of_key = used.decode.key.registry if used.decode.key else None
        for name, named in (("decode", used.decode.registry), ("decode.key", of_key)):
            if named is not None:
                yield f"{path}.{name}.registry", named


def _check_properties(group: ConsumerGroup) -> None:
    properties = {**LOG_PROPERTIES, **kafka_properties(group)}
    del properties["bootstrap.servers"]  # so that it connects to nothing
    create_client(Consumer, properties).close()


def _list_one(feed: Feed) -> None:
    next(iter(open_files(feed).files()), None)


def _kafka_faults(group: ConsumerGroup) -> Faults:
    kafka = group.spec.source.kafka
    if kafka is None or not _is_sound(partial(_check_properties, group)):
        return
    field = "spec.source.kafka"
    try:
        servers = kafka_servers(group)
        if why := trouble(servers.addresses, servers.hello):
            yield SourceAway(f"{field}.bootstrapServers: {why}")
            return
        log = KafkaLog(group, _ANSWER_TIMEOUT)
        try:
            found = log.topics()
            unreadable = log.unreadable([topic.name for topic in found.topics])
        finally:
            log.close()
    except LandfallError as error:
        yield _at(f"{field}: ", error)
        return
    yield from (_at(f"{field}: ", error) for error in found.denied.values())
    names = {topic.name for topic in found.topics}
    for topic in sorted(set(kafka.topics) - names - set(found.denied)):
        yield Stalled(Reason.TOPIC_MISSING, f"{field}.topics: Kafka has no topic {topic}")
    if not kafka.topics and not names:
        yield Stalled(
            Reason.TOPIC_MISSING, f"{field}.topicPattern: Kafka has no topic that it matches"
        )
    for topic in unreadable:
        yield Stalled(
            Reason.SOURCE_DENIED, f"{field}: {topic}: the login may not READ it: grant READ"
        )


def _source_faults(group: ConsumerGroup) -> Faults:
    source = group.spec.source
    for feed in source.files:
        if _is_sound(partial(check_secrets, (feed,), ""), partial(open_files, feed)):
            yield from _raised(partial(_list_one, feed), f"source.files: {feed.topic}: ")
    for named in (source.landed, source.read_from):
        if named is not None and _is_sound(
            partial(check_secrets, (named,), ""), partial(open_store, named.root)
        ):
            yield from _raised(partial(open_landed, named), f"{named.field}: ")


def _store_faults(group: ConsumerGroup) -> Faults:
    of_file = partial(check_secrets, group.spec.roots, ""), partial(open_stores, group.spec)
    if not _is_sound(*of_file):
        return
    silent = False
    for root in group.spec.roots:
        servers = store_servers(root)
        if why := trouble(servers.addresses, servers.hello):
            silent = True
            yield StoreAway(f"{root.section}: {why}")
    if silent:
        return
    field = "spec.output.url: "
    try:
        store = open_stores(group.spec)
        probe(store)
        check_marks(store, group.spec)
        owner = output_owner(store)
    except LandfallError as error:
        yield _at("" if str(error).startswith("spec.") else field, error)
        return
    if owner not in {None, group.full_name}:
        yield Stalled(
            Reason.OUTPUT_OCCUPIED,
            f"{field}the output root belongs to {owner}, not to {group.full_name}",
        )


def _registry_faults(group: ConsumerGroup) -> Faults:
    asked = set[RegistryOptions]()
    for field, named in _registries(group):
        ref = named.secret_ref
        if ref and not _is_sound(partial(check_secret, ref, "registry", "")):
            continue
        secret = ref.name if ref else None
        options = RegistryOptions(tuple(named.urls), secret, named.timeout.total_seconds())
        if options not in asked:
            asked.add(options)
            yield from _raised(partial(RegistryClient(options).latest, _SUBJECT), f"{field}: ")


def _publisher_faults(group: ConsumerGroup) -> Faults:
    """Yield servers of publishers that do not answer; what they would do there is not tried."""
    for number, entry in enumerate(group.spec.publish):
        for servers in _named_servers(entry.options):
            if why := trouble(servers.addresses, servers.hello):
                yield Retry(f"spec.publish[{number}].options.{servers.name}: {why}")


def _named_servers(options: Mapping[str, object], path: str = "") -> Iterator[Servers]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _named_servers(value, f"{path}{name}.")
        elif name in _ADDRESS_OPTIONS:
            texts = value if isinstance(value, list | tuple) else str(value).split(",")
            addresses = tuple(filter(None, (_address(str(text).strip()) for text in texts)))
            hello = b"" if any(str(text).startswith("thrift:") for text in texts) else HEAD
            yield Servers(f"{path}{name}", addresses, hello)


def _address(url: str) -> Address | None:
    ports = {"http": 80, "https": 443, "thrift": 9083}
    with suppress(ValueError):  # an invalid port: building the publisher has reported it
        parts = urlsplit(url)
        if parts.scheme in ports and parts.hostname:
            port = parts.port or ports[parts.scheme]
            return Address(parts.hostname, port, tls=parts.scheme == "https")
    return None


def _raised(attempt: Callable[[], object], prefix: str = "") -> Faults:
    try:
        attempt()
    except LandfallError as error:
        yield _at(prefix, error)


def _is_sound(*of_file: Callable[[], object]) -> bool:
    """Return whether all of these checks of the file pass."""
    return not any(chain.from_iterable(map(_raised, of_file)))


def _at(prefix: str, error: LandfallError) -> LandfallError:
    """Return the same error, its message after the field that it belongs to."""
    message = f"{prefix}{error}"
    return Stalled(error.reason, message) if isinstance(error, Stalled) else type(error)(message)
