"""The part of a group's status about ``spec.compact``. Pure."""

from landfall.api.pod_spec import Model
from landfall_operator.api.status_values import Count, Text


class CompactionStatus(Model):
    """What is to be merged of small objects, and what was since the driver started."""

    waiting_folders: Count
    """Folders with objects to merge, now or once they are complete."""
    waiting_objects: Count
    """Objects of those folders that are complete."""
    merged_objects: Count
    """Objects that were merged."""
    new_objects: Count
    """Objects that took their place."""
    merged_bytes: Count
    """Size of these objects."""
    duplicates: Count
    """Rows that were left out as duplicates."""
    problem: Text = ""
    """Why something was not merged the last time; absent if nothing was in the way."""
