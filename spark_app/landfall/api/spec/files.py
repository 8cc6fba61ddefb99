"""The section ``spec.source.files``: files of other programs, which are landed row by row."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from landfall.api.pod_spec import Model
from landfall.api.spec.s3 import S3Access
from landfall.api.spec.shared import TopicName
from landfall.api.values import Bytes, Duration, Name, Pattern, Settings, matching

MAX_FEEDS = 100
"""How many feeds a group has at most."""
FILES_URL = "s3://[^/]+(/.*)?|file:///.+"
"""The URLs of stores whose files can be a source."""


class Feed(Model):
    """Files in a bucket or folder, which are landed as the topic partition ``<topic>/0``.

    With ``process: External`` they are processed by others instead.
    """

    topic: TopicName
    """Name of the topic that the rows of these files are landed as."""
    url: Annotated[str, matching(FILES_URL, "s3://BUCKET/PREFIX or file:///FOLDER")]
    """Where the files are. Those in folders below belong to it, too."""
    s3: S3Access = S3Access()
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""
    process: Literal["Land", "External"] = "Land"
    """Who processes the files. Land lands their rows. External lands nothing: workers of yours take
    files by `landfall files take`, or over HTTP, and say what became of them. It cannot be changed
    later; give the files another topic instead.
    """
    include: Pattern | None = None
    """Regular expression for the names of files, without ``url``; it must match the whole name. All
    files if not set.
    """
    exclude: Pattern | None = None
    """Regular expression for names of files to leave out; it must match the whole name."""
    settle: Duration = timedelta(seconds=60)
    """A file is taken when it has not been written for so long."""
    reader: Name = "Lines"
    """How files are read: ``Lines``, ``JsonLines``, ``Csv``, ``Parquet``, ``Avro``,
    ``SequenceFile`` or ``Whole``. What it reads of a row is decoded by ``spec.decode``.
    """
    reader_options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the reader."""
    part_bytes: Annotated[Bytes, Field(ge=2**20, le=2**40)] = 128 * 2**20
    """Larger files are read in parts of this size, if their format allows that."""
    ordered_names: bool = False
    """Files that are found together are landed in the order of their names, instead of the order in
    which they were written.
    """
    discovery_interval: Duration = timedelta(seconds=30)
    """How often the driver looks for new files behind the last name that it knows."""
    relist: Duration = timedelta(minutes=10)
    """How often the driver looks at all names, and so finds files whose names are before others'
    that were there first.
    """
    on_change: Literal["Stall", "Ignore", "LandAgain"] = "Stall"
    """What happens when a file that is landed is written again with other contents. Stall stops the
    feed until somebody chooses; Ignore leaves the new contents out; LandAgain lands all rows of the
    new file.
    """
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """How often a file that cannot be read, or that a worker could not process, is tried. The files
    after it do not wait for it.
    """
    retry_interval: Duration = timedelta(minutes=5)
    """How long after an attempt a file that cannot be read is tried again."""

    @property
    def is_external(self) -> bool:
        """Whether workers of others process the files."""
        return self.process == "External"

    def counts(self, name: str) -> bool:
        """Whether a file of this name is one of the feed."""
        is_excluded = self.exclude is not None and re.fullmatch(self.exclude, name)
        return not is_excluded and (self.include is None or bool(re.fullmatch(self.include, name)))
