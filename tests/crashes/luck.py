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
    TOPICS_TOO = "uploads and topics that are created again, and a person decides"
    VERSIONS = "uploads, and versions of files that are written anew, and a person decides"

    @property
    def of_uploads(self) -> bool:
        """Whether a lifecycle rule may expire uploads that are committed."""
        of_log = {Loss.UPLOADS, Loss.SKIPPED, Loss.DECIDED, Loss.TOPICS_TOO}
        return self in of_log | {Loss.VERSIONS}

    @property
    def of_unlanded(self) -> bool:
        """Whether the log may drop records that are not landed."""
        return self in {Loss.ANYTHING, Loss.SKIPPED, Loss.DECIDED}

    @property
    def of_topics(self) -> bool:
        """Whether topics may be deleted and created again."""
        return self in {Loss.TOPICS, Loss.TOPICS_TOO}

    @property
    def is_decided(self) -> bool:
        """Whether only a person may give up what is lost."""
        return self in {Loss.DECIDED, Loss.TOPICS_TOO, Loss.VERSIONS}


_OF_LOGS = [loss for loss in Loss if loss is not Loss.VERSIONS]


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
            higher generation; or that and lost uploads.
        letters: whether some records are bad in a generation and fewer in the next ones, and a
            person has dead letters landed again.
        apart: whether dead letters are in a store of their own.
        refuses: whether the store may refuse a driver's credentials.
        leaderless: whether Kafka partitions may be without a leader for a while.
        checks: how often a driver checks the slot after its last one, between any two steps; 0 for
            never.
        repeats: whether a second completion succeeds, as on AWS.
        pauses: how long what seems lost is doubted, as where completions are not atomic.
        snapshot_every, segment_every: as in the spec.
        publishes: whether publishers follow the ledger.
        ranges: whether some drivers land closed ranges.
    """

    steps: int
    switch: float
    fault: float
    event: float
    loss: Loss
    letters: bool
    apart: bool
    refuses: bool
    leaderless: bool
    checks: float
    repeats: bool
    pauses: tuple[float, ...]
    snapshot_every: int
    segment_every: int
    publishes: bool
    ranges: bool

    @classmethod
    def of(cls, dice: random.Random) -> "Luck":
        chance = dice.random()
        letters = chance < 0.3
        return cls(
            steps=dice.choice((60, 120, 180, 240)) * (3 if letters else 1),
            switch=dice.choice((0.02, 0.1, 0.4)),
            fault=dice.choice((0.0, 0.02, 0.06, 0.15)),
            event=dice.choice((0.05, 0.1, 0.2)),
            loss=dice.choice((*_OF_LOGS, Loss.UPLOADS, Loss.COMMITTED)),
            letters=letters,
            apart=chance < 0.15,
            refuses=dice.random() < 0.5,
            leaderless=dice.random() < 0.5,
            checks=dice.choice((0.0, 0.02, 0.1, 0.3)),
            repeats=dice.random() < 0.5,
            pauses=dice.choice(((), (3.0, 30.0))),
            snapshot_every=dice.choice((2, 5, 1000)),
            segment_every=dice.choice((3, 4, 4, 5)),
            publishes=dice.random() < 0.4,
            ranges=dice.random() < 0.4,
        )
