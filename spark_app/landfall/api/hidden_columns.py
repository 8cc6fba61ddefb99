"""Columns hidden from readers because a folder of the route has their name. Pure.

Spark, DuckDB and other readers take a folder such as ``dt=2026-11-21`` for a column of every file
in it, and show its value instead of the file's column of this name. That is no error: some readers
see the column, and a reader can be configured to ignore folders.
"""

from collections.abc import Iterator, Sequence

from landfall.api.route_pattern import Token, TokenKind, tokens
from landfall.api.spec import Column, GroupSpec


def hidden_columns(spec: GroupSpec) -> tuple[str, ...]:
    """Return a warning for each declared column that has the name of a folder of another value.

    Names are compared as Spark does, without regard to case. A folder with the column's own value,
    as ``country={field:country}``, hides nothing.
    """
    pattern = spec.route.pattern
    if spec.route.topic_path is not None:
        pattern = f"{spec.route.topic_path}/{pattern}"
    decode = spec.decode
    columns = [(TokenKind.FIELD, column) for column in decode.columns]
    columns += [(TokenKind.KEY, column) for column in (decode.key.columns if decode.key else ())]
    columns += [(TokenKind.HEADER, column) for column in decode.header_columns]
    return tuple(
        f"column {column.name} is hidden by folder {name}=: Spark and DuckDB show the folder's "
        "value instead; rename one of them"
        for name, value in _folders(pattern)
        for kind, column in columns
        if column.name.casefold() == name.casefold() and not _is_column(value, kind, column)
    )


def _is_column(value: Sequence[Token], kind: TokenKind, column: Column) -> bool:
    return list(value) == [Token(kind, column.field or column.name)]


def _folders(pattern: str) -> Iterator[tuple[str, Sequence[Token]]]:
    """The folders of a pattern with ``=`` in their text: the parts before and after it."""
    folders: list[list[Token]] = [[]]
    for token in tokens(pattern):
        first, *others = token.text.split("/") if token.kind is TokenKind.TEXT else ("",)
        folders[-1] += [Token(TokenKind.TEXT, first)] if first else []
        folders[-1] += [token] if token.kind is not TokenKind.TEXT else []
        folders += [[Token(TokenKind.TEXT, text)] if text else [] for text in others]
    for folder in folders:
        if folder and folder[0].kind is TokenKind.TEXT and "=" in folder[0].text:
            name, _, text = folder[0].text.partition("=")
            yield name, [*([Token(TokenKind.TEXT, text)] if text else []), *folder[1:]]
