"""Connect's single message transforms: ``transforms``, as far as steps do the same.

A step is taken only if it does what the transform does to every value; other transforms are named,
with the nearest step.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from landfall_migrate.draft import Draft

Steps = Iterator[dict[str, Any]]
_KEYS = ("type", "predicate", "negate")


def take_steps(draft: Draft) -> None:
    """Set ``transforms``, in order; every key of a transform is taken with it, or refused."""
    names = [name.strip() for name in draft.settings.text("transforms").split(",") if name.strip()]
    steps: list[dict[str, Any]] = []
    taken: list[str] = []
    why = _no_steps(draft)
    for name in names:
        prefix = f"transforms.{name}."
        own = draft.settings.below(prefix)
        keys = [f"{prefix}{key}" for key in own]
        made = None if why or "predicate" in own else _made(own)
        if made is None:
            for key in keys or ["transforms"]:
                draft.refuse(key, _hint(own) if _is_of_debezium(own) else why or _hint(own))
        else:
            steps += made
            taken += keys
    if taken:
        draft.put("transforms", steps, "transforms", *taken)
    elif names:
        draft.refuse("transforms", why or "none of its transforms is taken")


def _no_steps(draft: Draft) -> str:
    """Return why no step may change rows; empty if they may."""
    if draft.spec.get("output", {}).get("format") in {"Parquet", "Avro"}:
        return (
            "rows are landed with the schema of the payload, so no step may change them: "
            "declare decode.columns for it"
        )
    return ""


def _made(own: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """The steps of a transform; None if they would not do the same."""
    kind = own.get("type", "").rpartition(".")[2]
    make = TRANSFORMS.get(kind)
    if make is None:
        return None
    options = {key: text for key, text in own.items() if key not in _KEYS}
    try:
        return list(make(options))
    except KeyError:
        return None


def _replace_field(options: dict[str, str]) -> Steps:
    for names, option in ((("exclude", "blacklist"), "drop"), (("include", "whitelist"), "fields")):
        listed = next((options.pop(name) for name in names if name in options), "")
        if listed:
            yield {"use": "Select", "options": {option: _items(listed)}}
    if "renames" in options:
        pairs = [pair.partition(":") for pair in _items(options.pop("renames"))]
        yield {"use": "Rename", "options": {old: new for old, _, new in pairs}}
    _check_all_read(options)


def _flatten(options: dict[str, str]) -> Steps:
    yield {"use": "Flatten", "options": {"separator": options.pop("delimiter", ".")}}
    _check_all_read(options)


def _check_all_read(options: Mapping[str, str]) -> None:
    """Raise KeyError for an option that no step has."""
    if options:
        raise KeyError(*options)


TRANSFORMS: Mapping[str, Callable[[dict[str, str]], Steps]] = {
    "ReplaceField$Value": _replace_field,
    "Flatten$Value": _flatten,
}
HINTS: Mapping[str, str] = {
    "ExtractNewRecordState": "decode.envelope: Debezium, without which columns read after.NAME "
    "(decode.columns with field); a delete is a row whose _op is d, and tombstones are left out",
    "Filter": "step Filter, with the predicate as its condition",
    "Cast": "step Cast, or decode.columns with types",
    "TimestampConverter": "step Cast, or decode.columns of type Timestamp",
    "InsertField": "step Set",
    "MaskField": "steps Mask and Hash: text becomes ***, not empty",
    "RegexRouter": "route.topicPath and route.pattern; the topic keeps its name",
    "ExtractTopic": "route.topicPath and route.pattern; the topic keeps its name",
    "TimestampRouter": "route.pattern; the topic keeps its name",
    "ReplaceField": "steps Select and Rename, without a predicate",
    "Flatten": "step Flatten, without a predicate",
}


def _is_of_debezium(own: Mapping[str, str]) -> bool:
    return own.get("type", "").endswith("ExtractNewRecordState")


def _hint(own: Mapping[str, str]) -> str:
    kind = own.get("type", "").rpartition(".")[2].partition("$")[0]
    return f"write it as {HINTS.get(kind, 'a function in Python: transforms')}"


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
