"""Step ``Hash``: replaces values by a keyed hash, by which records of one person can be joined.

| option | default | meaning |
|---|---|---|
| ``fields`` | | names of fields, or of columns of type String |
| ``secret`` | | the Secret that holds the key, mounted like Kafka's and S3's |
| ``key`` | ``key`` | the name in it; at least 16 characters |
| ``lower`` | false | whether text is made lower case first, as mail addresses want |

The hash is HMAC-SHA-256 (RFC 2104) of the text in UTF-8, in 64 hexadecimal digits. Without a key
mail addresses and IPs would be found by trying all of them. A number is hashed as it is written.
Null stays null. The key is read once, and appears in no message, status or object. Another key
gives other hashes: put it under another name, so that it is a new revision of the group.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.names import paths_of
from landfall.pipeline.transforms.replaced import with_replaced

_MIN_KEY_BYTES = 16


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Hash``."""

    fields: tuple[str, ...]
    secret: str
    key: str = "key"
    lower: bool = False


@dataclass(frozen=True)
class Hash:
    """Replaces values by a keyed hash.

    Attributes:
        writes: the names of the values.
        key: the key.
        lower: whether text is made lower case first.
    """

    writes: tuple[Path, ...]
    key: bytes = field(repr=False)
    lower: bool
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Hash":
        """Build the step.

        Raises:
            ValueError: an option is wrong, or the Secret has no such key.
            Stalled: there is no such Secret.
        """
        read = read_options(options, Options)
        paths = paths_of("fields", read.fields)
        key = context.read_secret(read.secret).get(read.key, "").encode()
        if len(key) < _MIN_KEY_BYTES:
            raise ValueError(
                f"option key: the Secret {read.secret!r} needs {read.key!r}, "
                f"with at least {_MIN_KEY_BYTES} characters"
            )
        return cls(paths, key, read.lower)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return all rows, with values replaced."""
        return with_replaced(decoded, self.writes, self._hashed)

    def _hashed(self, text: str) -> str:
        data = (text.lower() if self.lower else text).encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, data, "sha256").hex()
