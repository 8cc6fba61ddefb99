"""Step ``Mask``: replaces values so that no person can be found by them.

| option | default | meaning |
|---|---|---|
| ``fields`` | | names of fields, or of columns of type String |
| ``kind`` | ``Text`` | ``Text``: all; ``Mail``: what is before the ``@``; ``Ip``: the last of it |
| ``with`` | ``***`` | the replacement for text |

``Ip`` keeps the network of an IPv4 address to 24 bits and of an IPv6 address to 48:
``192.0.2.17`` becomes ``192.0.2.0``. A value that is no mail address or IP is replaced as a whole.
Null stays null.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.names import paths_of
from landfall.pipeline.transforms.replaced import with_replaced

_IPV4_BITS, _IPV6_BITS = 24, 48


class MaskKind(StrEnum):
    """The kind of a masked value."""

    TEXT = "Text"
    MAIL = "Mail"
    IP = "Ip"


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Mask``."""

    fields: tuple[str, ...]
    kind: MaskKind = MaskKind.TEXT
    replacement: str = msgspec.field(default="***", name="with")


@dataclass(frozen=True)
class Mask:
    """Replaces values so that no person can be found by them.

    Attributes:
        writes: the names of the values.
        kind: what they are.
        replacement: the replacement for text.
    """

    writes: tuple[Path, ...]
    kind: MaskKind
    replacement: str
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Mask":
        """Build the step; ValueError names a wrong option."""
        del context  # a name is a path or a column, as there is one
        read = read_options(options, Options)
        return cls(paths_of("fields", read.fields), read.kind, read.replacement)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return all rows, with values replaced."""
        return with_replaced(decoded, self.writes, self._masked)

    def _masked(self, text: str) -> str:
        match self.kind:
            case MaskKind.MAIL:
                name, _, domain = text.rpartition("@")
                return f"{self.replacement}@{domain}" if name and domain else self.replacement
            case MaskKind.IP:
                return _network(text) or self.replacement
            case MaskKind.TEXT:
                return self.replacement


def _network(text: str) -> str | None:
    """The network of an address; None if the text is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    kept = mapped or address
    bits = _IPV4_BITS if kept.version == 4 else _IPV6_BITS
    # Of the number, and not of the text: an IPv6 address may have a zone after it.
    make = ipaddress.IPv4Network if kept.version == 4 else ipaddress.IPv6Network
    return str(make((int(kept), bits), strict=False).network_address)
