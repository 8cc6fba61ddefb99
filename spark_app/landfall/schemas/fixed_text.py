"""The schema of all payloads, where the options of a decoder give one: as text, or in a file."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from landfall.pipeline.pinned import PinnedFile, pinned_as


@dataclass(frozen=True, slots=True)
class FixedText:
    """The text of a schema.

    Attributes:
        text: the text; None if there is none.
        option: which one gives it, for error messages.
        files: the file that it is from, if it is.
    """

    text: str | None
    option: str = "schema"
    files: tuple[PinnedFile, ...] = ()

    @classmethod
    def of(cls, schema: str | None, schema_file: str | None, checksum: str | None) -> "FixedText":
        """Read the options ``schema``, ``schemaFile`` and ``sha256``.

        Raises:
            ValueError: they do not go together, or the file cannot be read or is another one.
        """
        if schema is not None and schema_file is not None:
            raise ValueError("options: give the schema as schema or as schemaFile")
        if schema_file is None:
            if checksum is not None:
                raise ValueError("option sha256: is for schemaFile")
            return cls(schema)
        try:
            data = Path(schema_file).read_bytes()
            text = data.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"option schemaFile: cannot be read: {error}") from error
        file = pinned_as(schema_file, sha256(data).hexdigest(), checksum)
        return cls(text, "schemaFile", (file,))
