"""Places of dead letters (``badRecords.url``): claimed at the start, checked before an OPEN."""

from itertools import chain

from landfall.api.spec import ConsumerGroup, GroupSpec
from landfall.errors import LettersAway, Reason, Retry, Stalled
from landfall.lane import claim
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.store import Store
from landfall.store.probe import probe_uploads
from landfall.store.routed import RoutedStore


def claim_letters_place(store: Store, group: ConsumerGroup) -> None:
    """Return when the present place has shown that it keeps objects, and that it is this group's.

    Former places were claimed when they were present.

    Raises:
        Stalled: OUTPUT_OCCUPIED, it belongs to another group; STORE_UNSAFE.
        LettersAway: it refuses or does not answer.
    """
    place = group.spec.bad_records.present_place
    if place is None or not isinstance(store, RoutedStore):
        return
    letters = store.letters[place.id].store
    try:
        probe_uploads(letters)
        found = claim(letters, group.full_name)
    except Retry as error:
        raise LettersAway(f"spec.badRecords.url: {error}") from error
    if found != group.full_name:
        raise Stalled(
            Reason.OUTPUT_OCCUPIED,
            f"spec.badRecords.url: {object_names.owner_key()} in {place.url} assigns it "
            f"to {found}, not to {group.full_name}",
        )


def check_letters_places(state: State, spec: GroupSpec) -> None:
    """Return if the spec names the places of all dead letters that the lane still has to complete.

    Other dead letters may be in a place that it does not name: they stay there, unreachable, while
    it lands on.

    Raises:
        Stalled: SPEC_INVALID, it does not.
    """
    known = {"", *(place.id for place in spec.bad_records.places)}
    due = chain(*state.unapplied.values(), *state.missing.values())
    for key in sorted(landed.key for landed in due):
        if (place := object_names.letters_place(key)) not in known:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"spec.badRecords: {key} is decided, but not complete, in place {place}, which "
                "neither url nor formerPlaces names: name it there",
            )
