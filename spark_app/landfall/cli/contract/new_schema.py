"""The new schema that a producer wants, and the group's spec with it in the present one's place."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from landfall.api.spec import GroupSpec
from landfall.api.spec.decode import Decode, SchemaRegistry
from landfall.errors import Reason, Stalled
from landfall.pipeline.decoders.avro.schema import Schema, parse_schema
from landfall.registry import SCHEMA_OPTIONS
from landfall.schemas.avro import asks_for_latest

FORMAT = "Avro"
"""``decode.format`` of the payloads whose schema can be checked."""
_OF_PRESENT = SCHEMA_OPTIONS | {"schemaFile", "sha256", "subject", "pin", "schemaId"}
"""Options about the present schema, or about where it is."""
_OTHER: Mapping[str, str] = {".proto": "Protobuf", ".json": "JSON Schema", ".thrift": "Thrift"}
_NO_REGISTRY = SchemaRegistry(urls=("http://registry.invalid",))
"""Stands for a registry that is not asked."""
_SCHEMA_ID = "{schema:id}"


@dataclass(frozen=True)
class NewSchema:
    """A schema of Avro from a file.

    Attributes:
        path: of the file.
        text: its JSON.
        schema: the same, parsed.
    """

    path: Path
    text: str
    schema: Schema

    @classmethod
    def read(cls, path: Path) -> "NewSchema":
        """Read a file ``.avsc``.

        Raises:
            Stalled: SPEC_INVALID, the file cannot be read, or is no schema of Avro.
        """
        if (other := _OTHER.get(path.suffix)) is not None:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{path}: schemas of {other} cannot be checked yet, only Avro (.avsc)",
            )
        if path.suffix != ".avsc":
            raise Stalled(Reason.SPEC_INVALID, f"{path}: expected a schema of Avro, a file .avsc")
        try:
            text = path.read_bytes().decode()
        except OSError as error:
            raise Stalled(Reason.SPEC_INVALID, f"{path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise Stalled(Reason.SPEC_INVALID, f"{path}: no UTF-8 text: {error}") from error
        try:
            return cls(path, text, parse_schema(text))
        except ValueError as error:
            raise Stalled(Reason.SPEC_INVALID, f"{path}: {error}") from error


def decoder_options(decode: Decode) -> dict[str, object]:
    """Return the options of the decoder but those about the present schema of payloads."""
    options: dict[str, object] = {
        name: value for name, value in decode.options.items() if name not in _OF_PRESENT
    }
    if asks_for_latest(options):
        del options["readerSchema"]  # the new schema will be the latest
    return options


def under(spec: GroupSpec, text: str) -> GroupSpec:
    """Return the spec of a topic as it would be if all payloads had a schema, and no header."""
    decode = spec.decode
    options = {**decoder_options(decode), "schema": text}
    key = decode.key
    if key is not None and not SCHEMA_OPTIONS & key.options.keys():
        key = key.model_copy(update={"registry": _NO_REGISTRY})
    new = decode.model_copy(update={"options": options, "registry": None, "key": key})
    # No registry has given the new schema a number yet.
    named = spec.route.pattern.replace(_SCHEMA_ID, "new")
    route = spec.route.model_copy(update={"pattern": named})
    return spec.model_copy(update={"decode": new, "route": route})


def unresolved(spec: GroupSpec) -> GroupSpec:
    """Return the spec of a topic with a registry that is never asked, so that no schema is known.

    Its stages can be built whether or not a schema has the fields that they read.
    """
    new = under(spec, "")
    options = {name: value for name, value in new.decode.options.items() if name != "schema"}
    update = {"options": options, "registry": _NO_REGISTRY}
    return new.model_copy(update={"decode": new.decode.model_copy(update=update)})
