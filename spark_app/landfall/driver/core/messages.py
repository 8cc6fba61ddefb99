"""What a driver says of itself in its status, in words. Pure."""

from collections.abc import Collection, Iterable

from landfall.api.values import plural
from landfall.errors import Stalled


def list_errors(errors: Iterable[Stalled]) -> str:
    """A line for each error; empty if there is none."""
    return "\n".join(f"{error.reason}: {error}" for error in errors)


def work_beside_landing(orphans: int, lost: int) -> str:
    """What goes on beside landing; empty if nothing does.

    Args:
        orphans: uploads that are being aborted.
        lost: lost objects that are being made again.
    """
    messages = list[str]()
    if orphans:
        messages.append(f"aborting {plural(orphans, 'upload')} that former drivers left behind")
    if lost:
        objects = plural(lost, "committed object")
        messages.append(f"making {objects} again whose uploads the store has lost")
    return "\n".join(messages)


def not_landed(errors: Iterable[Stalled], topics: Collection[str]) -> str:
    """What a driver that ends has not landed, and which topics a closed range leaves."""
    left = f"not landed up to the end of the range: {', '.join(topics)}" if topics else ""
    return "\n".join(filter(None, (list_errors(errors), left)))
