"""What an API server makes of an object by the defaults of a structural schema."""

from typing import Any


def defaulted(node: dict[str, Any], value: Any) -> Any:
    """A field that is missing gets its default, and its fields theirs."""
    if isinstance(value, list) and "items" in node:
        return [defaulted(node["items"], item) for item in value]
    if not isinstance(value, dict) or "properties" not in node:
        return value
    missing = {
        name: child["default"] for name, child in node["properties"].items() if "default" in child
    }
    return {
        name: defaulted(node["properties"].get(name, {}), child)
        for name, child in {**missing, **value}.items()
    }
