"""Random payloads of a schema of Avro: values in all spellings of them, cut and changed bytes."""

import struct
from collections.abc import Callable
from random import Random

from tests.fuzz.avro.reference import Reference
from tests.fuzz.avro.schemas import Declared, kind_of

WHOLE = (0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 86_399_999, 86_400_000)
LONG = (*WHOLE, 2**63 - 1, -(2**63), 2**53 + 1, 86_399_999_999, 86_400_000_000, 253_402_300_800_000)
REAL = (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e-30, 0.1, 3.4e38, 16777217.0)
TEXTS = (
    "",
    "a",
    "é",
    'q"\\',
    "\u2028",
    "x" * 70,
    "😀",
    "00112233-4455-6677-8899-aabbccddeeff",
    "\0",
)
LEAVES = frozenset({"boolean", "int", "long", "float", "double"})
DEEPEST = 12
"""Levels from which on what is optional or in lists is left out."""


def payload(reference: Reference, seed: int, *, has_bad_text: bool) -> bytes:
    """A payload of the schema, most often a good one."""
    random = Random(seed)
    made = bytearray(_Writer(reference, random, has_bad_text).value(reference.schema, 0))
    for _ in range(random.choice((0, 0, 0, 0, 1, 1, 2))):
        at = random.randrange(len(made) + 1)
        match random.randrange(5):
            case 0:
                del made[at:]
            case 1:
                made.insert(at, random.randrange(256))
            case 2 if at < len(made):
                made[at] = random.randrange(256)
            case 3 if at < len(made):
                made[at] ^= 1 << random.randrange(8)
            case 4:
                del made[at : at + random.randrange(4)]
    return bytes(made)


class _Writer:
    def __init__(self, reference: Reference, random: Random, has_bad_text: bool) -> None:
        self.reference, self.random, self.has_bad_text = reference, random, has_bad_text

    def value(self, declared: Declared, level: int) -> bytes:  # noqa: C901, PLR0911, PLR0912  # a table
        of, random = self.reference.of(declared), self.random
        match of:
            case list():
                number = random.randrange(len(of))
                if level > DEEPEST and "null" in of:
                    number = [kind_of(each) for each in of].index("null")
                return self.number(number) + self.value(of[number], level + 1)
            case {"type": "null"}:
                return b""
            case {"type": "boolean"}:
                return random.choice((b"\0", b"\1"))
            case {"type": "int"}:
                is_near = random.random() < 0.5
                return self.number(random.choice(WHOLE) if is_near else random.randrange(10**5))
            case {"type": "long"}:
                is_near = random.random() < 0.5
                return self.number(random.choice(LONG) if is_near else random.randrange(10**8))
            case {"type": "float"}:
                return struct.pack("<f", random.choice(REAL))
            case {"type": "double"}:
                return struct.pack("<d", random.choice(REAL))
            case {"type": "string"}:
                return self.text()
            case {"type": "bytes"}:
                content = random.randbytes(random.choice((0, 1, 1, 2, 4, 8, 9, 16, 33, 70)))
                return self.number(len(content)) + self.small(of, content)
            case {"type": "fixed", "size": size}:
                return self.small(of, random.randbytes(size))
            case {"type": "enum", "symbols": symbols}:
                return self.number(random.randrange(len(symbols)))
            case {"type": "record", "fields": fields}:
                return b"".join(self.value(field["type"], level + 1) for field in fields)
            case {"type": "array", "items": items}:
                inner = self.reference.of(items)
                is_leaf = isinstance(inner, dict) and inner["type"] in LEAVES
                return self.blocks(level, lambda: self.value(items, level + 1), is_leaf=is_leaf)
            case {"type": "map", "values": values}:
                return self.blocks(level, lambda: self.text() + self.value(values, level + 1))
        raise AssertionError(of)

    def small(self, declared: Declared, content: bytes) -> bytes:
        """Bytes, of a decimal often such that its digits have room."""
        if declared.get("logicalType") != "decimal" or not content or self.random.random() < 0.2:
            return content
        most = min(10 ** declared["precision"], 2 ** (8 * len(content) - 1)) - 1
        unscaled = self.random.choice((0, 1, -1, most, -most, self.random.randint(-most, most)))
        return unscaled.to_bytes(len(content), "big", signed=True)

    def text(self) -> bytes:
        content = self.random.choice(TEXTS).encode()
        if self.has_bad_text and self.random.random() < 0.2:
            content = b"\xff" + content
        return self.number(len(content)) + content

    def blocks(self, level: int, item: Callable[[], bytes], *, is_leaf: bool = False) -> bytes:
        made, random = b"", self.random
        while level <= DEEPEST and random.random() < (0.6 if level < 4 else 0.3):
            count = random.choice((1, 1, 2, 3))
            if is_leaf and level < 3 and random.random() < 0.2:
                count = random.choice((10, 40, 300))  # of which whole blocks are passed over
            content = b"".join(item() for _ in range(count))
            if random.random() < 0.3:
                made += self.number(-count) + self.number(len(content)) + content
            else:
                made += self.number(count) + content
        return made + self.number(0)

    def number(self, value: int) -> bytes:
        left, made = (value << 1) ^ (value >> 63), bytearray()
        while left > 127:
            made.append(left & 127 | 128)
            left >>= 7
        made.append(left)
        if len(made) < 9 and self.random.random() < 0.02:  # longer than it needs to be
            made[-1] |= 128
            made.append(0)
        return bytes(made)
