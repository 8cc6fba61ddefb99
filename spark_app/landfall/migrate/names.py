"""Names of groups, made of other names. Pure."""

import re

from landfall.api.values import MAX_GROUP_NAME


def group_name(text: str) -> str:
    """A name for a group that is as near to the text as names of groups may be."""
    plain = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
    named = plain if re.match("[a-z]", plain) else f"group-{plain}".rstrip("-")
    return named[:MAX_GROUP_NAME].rstrip("-")
