"""Chooses the command that lets a stopped topic partition land again. Pure.

The operator shows these commands too, so this module imports nothing beyond the standard library.
"""

from collections.abc import Mapping
from types import MappingProxyType

from landfall.errors import Reason

NEXT_STEPS: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.DATA_LOSS: "landfall skip {group} {tp}",
        Reason.BAD_RECORDS: "landfall unblock {group} {tp}",
        Reason.OBJECT_LOST: "landfall skip {group} {tp}",
        Reason.TOPIC_MISSING: "landfall skip {group} {tp}",
        Reason.TOPIC_RECREATED: "landfall reset {group} {tp} --to earliest",
        Reason.STORE_DENIED: "landfall retry {group}",
        Reason.SOURCE_DENIED: "landfall retry {group}",
        Reason.FILE_UNREADABLE: "landfall files retry {group} {topic}",
        Reason.FILE_CHANGED: "landfall files retry {group} {topic} FILE",
    }
)
"""The command by which a topic partition that is stopped for this reason lands again.

``landfall files ignore`` takes the same words, and skips the files that ``files retry`` lands.
``FILE`` stands for a file that the message names. The other reasons stop the whole group, before or
instead of landing: the spec, the store or the ledger must be repaired, and no record can replace
that.
"""

SEE_VALUE = "landfall try shows its value"
"""The text after a bad record's reason where its payload may not be quoted."""

FILE_PLACEHOLDER = "GROUP.yaml"
"""Stands for the group's file in a next step whose reader has one."""

GIVE_UP_STEP = "landfall undo {group} {slot} --why '…'"
"""The command that gives up a REPLACE whose new objects the store refuses."""

_LANDS_AGAIN = frozenset({Reason.STORE_DENIED, Reason.SOURCE_DENIED})
"""Reasons that end without a change of what is landed: a backfill that is run again continues."""

TRUNCATED_STEP = "landfall unblock {group} {tp}"
"""The command for a log that was truncated; its reason is DATA_LOSS, too."""


def give_up_step(slot: int) -> str:
    """The command that gives up the REPLACE in a slot, which is not applied."""
    return GIVE_UP_STEP.format(group=FILE_PLACEHOLDER, slot=slot)


def next_step(
    reason: Reason, topic_partition: str, group: str = FILE_PLACEHOLDER, *, truncated: bool = False
) -> str:
    """The command to type, without ``--why``; empty if no command helps.

    Args:
        reason: why the topic partition is stopped.
        topic_partition: as ``clicks/3``.
        group: the group's file.
        truncated: whether DATA_LOSS is about a truncated log, not about expired offsets.
    """
    is_truncation = truncated and reason is Reason.DATA_LOSS
    step = TRUNCATED_STEP if is_truncation else NEXT_STEPS.get(reason, "")
    topic = topic_partition.rpartition("/")[0]
    command = step.format(group=group, tp=topic_partition, topic=topic)
    return f"{command} --why '…'" if command else ""


def backfill_step(reason: Reason, name: str) -> str:
    """The command for a topic partition that is stopped in a backfill, whose name this is.

    Not one of ``NEXT_STEPS``: these would skip or reset a topic partition of the live group.
    """
    verb = "run" if reason in _LANDS_AGAIN else "discard"
    return f"landfall backfill {verb} {FILE_PLACEHOLDER} {name}"
