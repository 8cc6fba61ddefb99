"""Payloads that are text in columns: ``Csv`` and ``Delimited``, read by plain Python."""

from collections.abc import Callable, Mapping, Sequence

from landfall.audit.payloads import BadPayload, Undecided
from landfall.audit.readers.csv_text import Dialect

Options = Mapping[str, object]
Document = Callable[[bytes], Mapping[str, object]]


def csv(options: Options) -> tuple[Document, Sequence[str]]:
    """What reads payloads of ``Csv``, and the names of their values."""
    dialect = Dialect.of(options)
    header = options.get("header")
    names = (
        [name or "" for name in dialect.split(str(header))]
        if header is not None
        else _names(options)
    )

    def document(payload: bytes) -> Mapping[str, object]:
        try:
            values = dialect.split(payload.decode())
        except ValueError as error:
            raise BadPayload(f"csv: {error}") from None
        return _named("csv", names, values)

    return document, names


def delimited(options: Options) -> tuple[Document, Sequence[str]]:
    """What reads payloads of ``Delimited``, and the names of their values."""
    if options.get("quote"):
        raise Undecided("Delimited with quotes")
    names, separator = _names(options), str(options.get("separator", ","))

    def document(payload: bytes) -> Mapping[str, object]:
        try:
            text = payload.decode()
        except ValueError as error:
            raise BadPayload(f"delimited: {error}") from None
        if not set(separator) & {"\r", "\n"}:
            text = _without_line_break(text)
        return _named("delimited", names, text.split(separator))

    return document, names


def _names(options: Options) -> list[str]:
    names = options.get("columns")
    if not isinstance(names, Sequence) or isinstance(names, str):
        raise Undecided("columns without names")
    return [str(name) for name in names]


def _named(
    decoder: str, names: Sequence[str], values: Sequence[str | None]
) -> Mapping[str, object]:
    if len(values) != len(names):
        raise BadPayload(f"{decoder}: {len(values)} values for {len(names)} columns")
    return dict(zip(names, values, strict=True))


def _without_line_break(text: str) -> str:
    for end in ("\r\n", "\n", "\r"):
        if text.endswith(end):
            return text.removesuffix(end)
    return text
