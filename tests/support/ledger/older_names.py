"""Names of replaced objects as software of before docs/adr/0059 gave them."""

import re

from landfall.ledger.names import object_names

_OLD = re.compile(r"\.r[0-9]+(?=\.|$)")


def renamed(key: str, plan: int) -> str:
    """As ``object_names.renamed`` was: the plan is after the first offset."""
    folder, slash, basename = key.rpartition("/")
    stem, dot, rest = basename.partition(".")
    extension = _OLD.sub("", f"{dot}{rest}", count=1)
    name = f"{folder}{slash}{stem}.r{plan}{extension}"
    assert object_names.parse_key(name).planned_by == plan
    return name
