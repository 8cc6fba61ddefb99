"""Which upload each object in HDFS comes from: folders whose names say it.

``<owners>/<key>/<owner>/``, where the owner is the id, token, size and ETag of the upload. They are
folders and not files, because a name node keeps them without a block, and makes one in a
millisecond, where a client needs half a second to close a file.

An owner is claimed before its object becomes visible, so no object is ever visible without its
token. A claim is void if its upload is gone and its object was never visible; another owner takes
over such a claim by renaming it, which is one step, so that there is never a moment without one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote
from uuid import uuid4

from landfall.errors import Reason, Retry, Stalled
from landfall.objects import Upload, multipart_etag
from landfall.store.hdfs.tree import Tree, name_of


@dataclass(frozen=True)
class Owner:
    """The upload that an object came from, or is about to come from."""

    upload_id: str
    token: str
    size: int
    etag: str

    @classmethod
    def of(cls, upload: Upload) -> "Owner":
        """The owner of the upload's object."""
        return cls(upload.upload_id, upload.token, upload.size, multipart_etag(upload.parts))

    @property
    def name(self) -> str:
        """As the name of a folder."""
        values = (self.upload_id, self.token, str(self.size), self.etag)
        return ",".join(quote(value, "") for value in values)

    @classmethod
    def parse(cls, name: str) -> "Owner | None":
        """The owner that has this name; None if none has."""
        match name.split(","):
            case [upload_id, token, size, etag] if size.isdecimal():
                return cls(unquote(upload_id), unquote(token), int(size), unquote(etag))
        return None


class Owners:
    """The owners of the objects under one root. Thread-safe."""

    def __init__(self, tree: Tree, folder: str) -> None:
        """``folder`` is where they are kept."""
        self._tree, self._folder = tree, folder

    def of(self, key: str) -> Owner | None:
        """Who has claimed a key; None if nobody has."""
        names = [name_of(each) for each in self._tree.entries(f"{self._folder}/{key}")]
        return next(filter(None, map(Owner.parse, names)), None)

    def claim(
        self,
        key: str,
        owner: Owner,
        *,
        is_open: Callable[[str], bool],
        is_visible: Callable[[], bool],
    ) -> None:
        """Record that the object about to be visible comes from this owner.

        Args:
            key: of the object.
            owner: who claims it.
            is_open: whether an upload of the key, given by its id, is still there.
            is_visible: whether the object is.

        Raises:
            FileExistsError: the object is visible, and comes from another upload.
            Retry: another driver claims it at this moment.
            Stalled: LEDGER_BROKEN, another open upload has claimed the key.
        """
        found = self.of(key) or self._claimed(key, owner)
        if found == owner:
            return
        # In this order: what was open before and is gone now is seen as its object.
        still_open = is_open(found.upload_id)
        if is_visible():
            raise FileExistsError(key)
        if still_open:
            raise Stalled(
                Reason.LEDGER_BROKEN,
                f"{key}: claimed by upload {found.upload_id} with token {found.token}, "
                "which is still open",
            )
        folder = f"{self._folder}/{key}"
        try:
            self._tree.rename(f"{folder}/{found.name}", f"{folder}/{owner.name}")
        except FileNotFoundError:
            # Another driver may have renamed it first, for the same upload.
            if self.of(key) != owner:
                raise Retry(f"{key}: another driver claims it too") from None

    def forget(self, key: str, owner: Owner) -> None:
        """Remove a claim whose object has retired, if it is there. Nobody else claims the key."""
        if self.of(key) == owner:
            self._tree.delete(f"{self._folder}/{key}")

    def _claimed(self, key: str, owner: Owner) -> Owner:
        """Claim a key that nobody has claimed; who has it then."""
        claim, made = f"{self._folder}/{key}", f"{self._tree.new}/{uuid4().hex}"
        self._tree.make_folder(f"{made}/{owner.name}")
        self._tree.make_folder(claim.rpartition("/")[0])
        try:
            self._tree.rename(made, claim)
        except FileExistsError:
            self._tree.delete(made)
            found = self.of(key)
            if found is None:
                raise Retry(f"{key}: there is a folder without an owner") from None
            return found
        return owner
