"""What is wrong with the files of a feed, as the driver's status says it. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from landfall import ledger
from landfall.api import spec
from landfall.api.values import plural
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import TopicPartition


def other_process(feed: spec.Feed) -> str:
    """Why a feed is stopped whose ``process`` is another than when it entered the ledger."""
    was = "Land" if feed.is_external else "External"
    return (
        f"spec.source.files: {feed.topic} entered the ledger with process: {was}, which cannot "
        f"become {feed.process}: what is numbered is counted in another way. Give the files "
        "another topic"
    )


def files_problem(tp: TopicPartition, feed: ledger.Feed, own: spec.Feed) -> Stalled | None:
    """What is wrong with files that are not landed; of those of others, with what they gave up."""
    if feed.leasing:
        failed = {n: p for n, p in feed.parked.items() if p.attempt >= own.max_attempts}
        return _parked(tp, replace(feed, parked=failed), "done") if failed else None
    return _parked(tp, feed) if feed.parked else None


def changed_problem(tp: TopicPartition, names: Sequence[str]) -> Stalled:
    """What is wrong with files that were written anew after they were landed."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Stalled(
        Reason.FILE_CHANGED,
        f"{tp}: {names[0]}{more} was written anew after it was landed; `landfall files "
        "retry` lands the new file as a whole, `landfall files ignore` leaves it out; "
        "onChange: LandAgain or Ignore does so with all files from now on",
    )


def _parked(tp: TopicPartition, feed: ledger.Feed, how: str = "landed") -> Stalled:
    first = feed.parked[min(feed.parked)]
    count = plural(len(feed.parked), "part")
    tries = plural(first.attempt, "time")
    return Stalled(
        Reason.FILE_UNREADABLE,
        f"{tp}: {count} of files not {how}, the first tried {tries}: {first.reason}",
    )
