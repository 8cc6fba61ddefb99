"""What a group's status says about merging small objects. Pure.

The numbers are the active driver's, rounded as all numbers of a status. While it does not answer,
the last known ones stay.
"""

from landfall_operator.api.compaction_status import CompactionStatus
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.humanize import rough, shortened

MAX_MESSAGE_LENGTH = 300
"""Characters of why something was not merged."""


def compaction_status(observed: GroupObservation, desired: DesiredState) -> CompactionStatus | None:
    """What the active driver reports, or the last status had; None if the group merges nothing."""
    driver = observed.driver(desired.rollout.active)
    answer = driver.report if driver else None
    if answer is None:
        return observed.status.compaction
    found = answer.status.compaction
    if found is None:
        return None
    return CompactionStatus(
        waiting_folders=rough(found.waiting_folders),
        waiting_objects=rough(found.waiting_objects),
        merged_objects=rough(found.merged_objects),
        new_objects=rough(found.new_objects),
        merged_bytes=rough(found.merged_bytes),
        duplicates=rough(found.duplicates),
        problem=shortened(found.problem, MAX_MESSAGE_LENGTH),
    )
