"""Secrets that a spec sends over plain HTTP, readable by every network hop. Pure.

That is a warning, not an error: a mesh may encrypt on the way, and groups that landed so before
must continue. Signed requests, as of S3, show no secret, and requests to this machine never leave
it.
"""

import re
from collections.abc import Iterator

from landfall.api.spec import GroupSpec, Root, TopicSpecs
from landfall.api.spec.files import Feed
from landfall.api.spec.landed import LandedPlace
from landfall.api.spec.stores import AzureAccess, GcsAccess

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
# The operator's pure packages import no urllib, which opens connections, too.
_PLAIN = re.compile(r"http://(?:[^/@]*@)?(?:\[(?P<v6>[^]]*)]|(?P<host>[^/:?#]*))")


def plain_http(spec: GroupSpec) -> tuple[tuple[str, str], ...]:
    """Return the fields whose server gets a secret over plain HTTP, each with a warning."""
    found = dict[str, str]()
    for field, url in _servers(spec):
        server = _PLAIN.match(url)
        if server and (server["v6"] or server["host"]).lower() not in _LOOPBACK:
            found[field] = f"its secret is sent to {url} without encryption; use https"
    return tuple(found.items())


def _servers(spec: GroupSpec) -> Iterator[tuple[str, str]]:
    """The URLs of servers that get a secret, with the fields that name them."""
    for path, used in TopicSpecs.of(spec).used():
        yield from _registries(path, used)
    for section, place in _places(spec):
        access = place.access
        if isinstance(access, AzureAccess | GcsAccess) and access.credentials_secret_ref:
            yield f"spec.{section}.{place.access_field}.endpoint", access.endpoint or ""
    for i, entry in enumerate(spec.publish):
        for name, value in entry.options.items() if entry.secret_ref else ():
            if isinstance(value, str):
                yield f"spec.publish[{i}].options.{name}", value


def _places(spec: GroupSpec) -> Iterator[tuple[str, Root | Feed | LandedPlace]]:
    """Yield the places that are read and written in stores, with their paths in the spec."""
    yield from ((root.section, root) for root in spec.roots)
    yield from ((f"source.files[{i}]", feed) for i, feed in enumerate(spec.source.files))
    landed = spec.source.landed or spec.source.read_from
    if landed:
        yield landed.field.removeprefix("spec."), landed


def _registries(path: str, spec: GroupSpec) -> Iterator[tuple[str, str]]:
    key = spec.decode.key
    for name, registry in (
        ("decode.registry", spec.decode.registry),
        ("decode.key.registry", key.registry if key else None),
    ):
        for url in registry.urls if registry and registry.secret_ref else ():
            yield f"{path}.{name}.urls", url
