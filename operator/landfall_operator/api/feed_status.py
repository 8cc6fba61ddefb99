"""The part of a group's status about the files of ``spec.source.files``. Pure."""

from landfall.api.pod_spec import Model
from landfall_operator.api.status_values import Count, Moment, Text


class FeedStatus(Model):
    """The files of a feed."""

    topic: str
    """Topic that the rows of the files are landed as."""
    pending_files: Count
    """Files that are found and not landed, without those that are parked."""
    pending_bytes: Count
    """Size of what is not landed of them."""
    landed_parts: Count
    """Parts of files that are landed; most files have one part."""
    parked_parts: Count
    """Parts that could not be read. They are tried again until maxAttempts, and then wait for
    somebody; the files after them are landed meanwhile.
    """
    ignored_parts: Count
    """Parts that somebody has given up."""
    error: Text = ""
    """What is wrong with the first of those that are parked, or with files written anew."""
    last_look: Moment | None = None
    """When the driver last looked for new files; absent before it has."""
