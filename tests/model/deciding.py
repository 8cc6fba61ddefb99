"""Steps by which topic partitions are blocked, and those by which a person lets them land again."""

from collections.abc import Iterator

from landfall.errors import Reason
from tests.model.appending import with_driver
from tests.model.chain import TP
from tests.model.completing import Completing
from tests.model.verbs import VERBS
from tests.model.world import Driver, Event, Step, World


class Deciding(Completing):
    """Blocks and decides, beside what ``Completing`` does."""

    def _is_blocked(self, me: Driver) -> bool:
        return TP in self.chains.views[me.view].state.blocked

    def _is_held(self, me: Driver) -> bool:
        """Whether nothing is landed until a person decides otherwise."""
        return self._is_blocked(me) or TP in self.chains.views[me.view].state.excluded

    def _must_drop_batch(self, me: Driver) -> bool:
        """Whether the topic partition was blocked while a batch of it was in flight."""
        return me.batch >= 0 and self.rules.drops_batches_of_blocked and self._is_blocked(me)

    def _drop_batch(self, w: World, d: int, me: Driver) -> Step:
        dropped = with_driver(w, d, me._replace(batch=-1))
        event = Event(d, "aborts, as the topic partition is blocked,", me.batch)
        return event, *self.store.abort(dropped, 1 << me.batch)

    def _is_truncated(self, w: World, me: Driver) -> bool:
        """Whether the log of the last landed record's leader epoch ends before that record.

        The broker says so when the next records are read.
        """
        member = self.chains.views[me.view].state.members.get(TP)
        if member is None or self._is_blocked(me):
            return False
        is_older = 0 <= member.leader_epoch < int(w.cut >= 0)
        return self.rules.compares_leader_epochs and is_older and member.epoch_offset >= w.cut

    def _ask_a_person(self, w: World, d: int, me: Driver) -> Iterator[Step]:
        """What a person may decide now. A decision waits for the batch in flight."""
        if me.batch >= 0 and self.rules.decides_between_batches:
            return
        asked = w._replace(left=w.left._replace(decisions=w.left.decisions - 1))
        for verb in VERBS:
            if self.chains.decides(me.view, verb, w.log_start):
                yield from self._append(asked, d, me, verb, w.log_start, calm=False)

    def _resolve(self, w: World, d: int, me: Driver) -> Iterator[Step]:
        """The verb that the status names: it lets the topic partition land again."""
        blocked = self.chains.views[me.view].state.blocked[TP]
        verb = "skip" if blocked.reason is Reason.OBJECT_LOST else "unblock"
        yield from self._append(w, d, me, verb, w.log_start, calm=True)
