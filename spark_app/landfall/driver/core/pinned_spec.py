"""The spec that a driver lands by: everything outside it that may change is named in it.

A driver makes it once, when it starts. It stores the part that decides what objects hold, names it
in its OPEN, and sends it to its tasks. So all tasks of a driver read the same, and so does a driver
that makes its objects again, years later: files are pinned by their checksum, and the latest schema
of a subject by a pin, under which the first task that asks the registry stores the answer. See
[decision 17](adr/0017-files-are-pinned-by-the-stored-spec.md) and
[decision 18](adr/0018-the-latest-schema-is-the-same-for-a-driver.md).
"""

from collections.abc import Mapping

from landfall import registry
from landfall.api.spec import ConsumerGroup, TopicSpecs, with_decode_option
from landfall.schemas.avro import asks_for_latest

PIN = "pin"
"""The option with the name under which the latest schema stays the same."""
_AVRO = "Avro"


def pinned_spec(group: ConsumerGroup, pin: str) -> ConsumerGroup:
    """Return the group with checksums and pins in its spec.

    Args:
        group: the resource.
        pin: the name of this driver's latest schemas; no other driver may have it. Where the spec
            has a pin, that one stays.

    Raises:
        Stalled: SPEC_INVALID, as ``registry.check_spec``.
    """
    found = registry.pinned(group)
    spec, specs = found.spec, TopicSpecs.of(found.spec)
    for entry, (_, used) in zip(specs.used_entries(), specs.used(), strict=True):
        decode = used.decode
        if _lacks_pin(decode.format, decode.options):
            spec = with_decode_option(spec, entry, PIN, pin)
        if decode.key is not None and _lacks_pin(decode.key.format, decode.key.options):
            spec = with_decode_option(spec, entry, PIN, pin, of_key=True)
    return found.model_copy(update={"spec": spec})


def _lacks_pin(format_: str, options: Mapping[str, object]) -> bool:
    return format_ == _AVRO and asks_for_latest(options) and PIN not in options
