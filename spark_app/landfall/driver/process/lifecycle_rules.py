"""Rules for a bucket: they delete what is left once no driver of a group runs. Pure.

While drivers run, they need none of them: a rule deletes later than a driver would. But a group
that is deleted, or suspended for good, has no driver that aborts its uploads or deletes the copies
of what was replaced. Nothing else may expire by a rule: docs/reference/bucket.md.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, Root
from landfall.ledger.names import object_names
from landfall.store.gcs.parts import PARTS
from landfall.store.lifecycle import PROBES

UPLOADS = timedelta(days=30)
"""How long an incomplete upload may live: longer than any outage, as it may be committed."""
COPIES = timedelta(days=1)
"""How much longer a copy lives than a driver would keep it."""
PROBED = timedelta(days=1)
_WITH_RULES = frozenset({"s3", "gcs"})
"""Azure discards uploads by itself, and the other stores know no rules."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Contents of a bucket below a prefix expire after some days.

    Attributes:
        why: what it is.
        prefix: of its keys in the bucket.
        days: how old it is then.
        of_uploads: incomplete uploads are aborted; else objects are deleted.
    """

    why: str
    prefix: str
    days: int
    of_uploads: bool = False


def rules(group: ConsumerGroup) -> Mapping[str, Sequence[Rule]]:
    """The rules for each bucket of a group that has such rules, by its URL, without a prefix."""
    found: dict[str, list[Rule]] = defaultdict(list)
    spec = group.spec
    kept = spec.tuning.retain_replaced + COPIES
    copies = object_names.retired_prefix(group.metadata.name, LANE)
    for root in (spec.output, *spec.bad_records.places):
        bucket, prefix = _split(root)
        if root.kind in _WITH_RULES:
            found[bucket] += _uploads(root, prefix)
            found[bucket].append(
                Rule("copies of what was replaced", f"{prefix}{copies}", days(kept))
            )
    for root in spec.roots:
        bucket, prefix = _split(root)
        if root.kind in _WITH_RULES:
            found[bucket].append(Rule("tests of the store", f"{prefix}{PROBES}", days(PROBED)))
    return found


def documents(group: ConsumerGroup) -> Mapping[str, Any]:
    """Return the rules as the store of each bucket takes them, by the bucket's URL."""
    name = group.metadata.name
    return {
        url: _as_s3(name, some) if url.startswith("s3:") else _as_gcs(some)
        for url, some in rules(group).items()
    }


def days(time: timedelta) -> int:
    """Whole days, no fewer than a time has."""
    return -(-time // timedelta(days=1))


def _uploads(root: Root, prefix: str) -> list[Rule]:
    why, age = "uploads that are never completed", days(UPLOADS)
    if root.kind == "gcs":  # an upload is its parts
        return [Rule(why, f"{prefix}{PARTS}", age)]
    return [Rule(why, prefix, age, of_uploads=True)]


def _split(root: Root) -> tuple[str, str]:
    scheme, _, path = root.url.rstrip("/").partition("://")
    bucket, _, prefix = path.partition("/")
    return f"{scheme}://{bucket}", f"{prefix}/" if prefix else ""


def _as_s3(group: str, some: Sequence[Rule]) -> Any:
    return {
        "Rules": [
            {
                "ID": f"landfall {group} {number}: {rule.why}",
                "Status": "Enabled",
                "Filter": {"Prefix": rule.prefix},
                **(
                    {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": rule.days}}
                    if rule.of_uploads
                    else {"Expiration": {"Days": rule.days}}
                ),
            }
            for number, rule in enumerate(some, 1)
        ]
    }


def _as_gcs(some: Sequence[Rule]) -> Any:
    return {
        "rule": [
            {
                "action": {"type": "Delete"},
                "condition": {"age": rule.days, "matchesPrefix": [rule.prefix]},
            }
            for rule in some
        ]
    }
