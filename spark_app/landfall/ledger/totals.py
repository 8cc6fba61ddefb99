"""Counters that a lane's state adds up from its records. Pure."""

from dataclasses import astuple, dataclass, replace

from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters over all records of a lane. None ever decreases.

    Landed, filtered, dead-lettered, invisible and skipped, less replayed, make up every offset that
    a checkpoint has passed.

    Attributes:
        commits: COMMIT records.
        objects: data objects; dead-letter objects are not counted.
        landed: records in data objects, also in those lost later.
        filtered: records that a transform dropped on purpose.
        dead_lettered: records in dead-letter objects, also in those replayed later.
        invisible: offsets without a record, see ``LandedSlice``.
        skipped: offsets in HOLEs.
        landed_bytes: bytes of the data objects.
        lost: records in objects that LOST gave up, dead letters included.
        lost_objects: objects that LOST gave up, dead-letter objects included.
        replayed: records in dead-letter objects that were replayed.
        duplicates: rows that a REPLACE left out, because another one has their key.
        retired: objects that REPLACEs retire.
        replacing: objects that replace these.
    """

    commits: int = 0
    objects: int = 0
    landed: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    invisible: int = 0
    skipped: int = 0
    landed_bytes: int = 0
    lost: int = 0
    lost_objects: int = 0
    replayed: int = 0
    duplicates: int = 0
    retired: int = 0
    replacing: int = 0

    @property
    def present_objects(self) -> int:
        """How many objects there should be now, of data and of dead letters."""
        return self.objects - self.retired + self.replacing - self.lost_objects

    def with_commit(self, slices: tuple[LandedSlice, ...]) -> "Totals":
        """The counters with one more COMMIT of these slices."""
        return replace(
            self._with_objects(slices),
            commits=self.commits + 1,
            invisible=self.invisible + sum(s.invisible for s in slices),
        )

    def with_replay(self, slices: tuple[ReplayedSlice, ...]) -> "Totals":
        """The counters with these dead-letter objects landed again."""
        return replace(
            self._with_objects(slices), replayed=self.replayed + sum(s.rows for s in slices)
        )

    def with_lost(self, objects: tuple[LandedObject, ...]) -> "Totals":
        """The counters with these objects given up."""
        return replace(
            self,
            lost=self.lost + sum(o.rows for o in objects),
            lost_objects=self.lost_objects + len(objects),
        )

    def with_replacement(self, retired: int, objects: int, duplicates: int) -> "Totals":
        """The counters after a replacement by so many objects."""
        return replace(
            self,
            duplicates=self.duplicates + duplicates,
            retired=self.retired + retired,
            replacing=self.replacing + objects,
        )

    def since(self, before: "Totals") -> "Totals":
        """Return what was added since the counters were ``before``."""
        return Totals(
            *(now - then for now, then in zip(astuple(self), astuple(before), strict=True))
        )

    def _with_objects(
        self, slices: tuple[LandedSlice, ...] | tuple[ReplayedSlice, ...]
    ) -> "Totals":
        data = [o for s in slices for o in s.objects if o.kind is ObjectKind.DATA]
        return replace(
            self,
            objects=self.objects + len(data),
            landed=self.landed + sum(s.landed for s in slices),
            filtered=self.filtered + sum(s.filtered for s in slices),
            dead_lettered=self.dead_lettered + sum(s.dead_lettered for s in slices),
            landed_bytes=self.landed_bytes + sum(o.upload.size for o in data),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """Work of tasks for COMMITs, in slices of about equal work.

    Attributes:
        slices: that were landed.
        task_ms: how long tasks took for them, together.
        longest_ms: how long the slice took that took longest.
    """

    slices: int = 0
    task_ms: int = 0
    longest_ms: int = 0

    def with_commit(self, slices: tuple[LandedSlice, ...]) -> "Work":
        """The work with one more COMMIT of these slices."""
        times = [round(landed.seconds * 1000) for landed in slices]
        longest = max(times, default=0)
        return Work(
            self.slices + len(times), self.task_ms + sum(times), max(self.longest_ms, longest)
        )
