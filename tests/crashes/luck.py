"""What a schedule is made of: how often what happens, drawn from its seed."""

import random
from dataclasses import dataclass
from enum import StrEnum


class Loss(StrEnum):
    """What may be lost that no driver is to blame for."""

    UPLOADS = "uploads"
    COMMITTED = "committed records"
    ANYTHING = "any records"
    TOPICS = "a topic, created again under its name"
    SKIPPED = "uploads and any records, and the spec allows to skip them"
    DECIDED = "uploads and any records, and a person decides"

    @property
    def of_uploads(self) -> bool:
        """Whether a lifecycle rule may expire uploads that are committed."""
        return self in {Loss.UPLOADS, Loss.SKIPPED, Loss.DECIDED}

    @property
    def of_unlanded(self) -> bool:
        """Whether the log may drop records that are not landed."""
        return self in {Loss.ANYTHING, Loss.SKIPPED, Loss.DECIDED}


@dataclass(frozen=True, slots=True)
class Luck:
    """The probabilities of a schedule.

    Attributes:
        steps: how many steps have trouble in them; after that everything calms down.
        switch: how often another thread continues at a step.
        fault: how often a call meets a fault.
        event: how often something happens between two calls.
        loss: a lifecycle rule may expire uploads; or the log may drop records that are committed,
            or records that are not, which are skipped; or both, so that a lost upload cannot always
            be made again; or a topic may be deleted and created again, and later drivers may have a
            higher generation.
        refuses: whether the store may refuse a driver's credentials.
        checks: how often a driver checks the slot after its last one, between any two steps; 0 for
            never.
        repeats: whether a second completion succeeds, as on AWS.
        snapshot_every, segment_every: as in the spec.
    """

    steps: int
    switch: float
    fault: float
    event: float
    loss: Loss
    refuses: bool
    checks: float
    repeats: bool
    snapshot_every: int
    segment_every: int

    @classmethod
    def of(cls, dice: random.Random) -> "Luck":
        return cls(
            steps=dice.choice((60, 120, 180, 240)),
            switch=dice.choice((0.02, 0.1, 0.4)),
            fault=dice.choice((0.0, 0.02, 0.06, 0.15)),
            event=dice.choice((0.05, 0.1, 0.2)),
            loss=dice.choice((*Loss, Loss.UPLOADS, Loss.COMMITTED)),
            refuses=dice.random() < 0.5,
            checks=dice.choice((0.0, 0.02, 0.1, 0.3)),
            repeats=dice.random() < 0.5,
            snapshot_every=dice.choice((2, 5, 1000)),
            segment_every=dice.choice((3, 4, 4, 5)),
        )
