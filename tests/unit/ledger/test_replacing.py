"""REPLACE: which lists are refused, what a state remembers, and when a REPLACE is applied."""

import pytest

from landfall import ledger
from landfall.errors import Stalled
from landfall.ledger import Decision, Header, Purpose, Record, Replacement, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacing import MAX_FOLDERS, MAX_OBJECTS
from landfall.ledger.snapshot import decode_state, encode_state

TP = TopicPartition("clicks", 0)
LIST = Replacement("list", "0" * 64, retired=3, retired_rows=30, objects=1, rows=30)


def after(state: State, record: Record) -> State:
    return ledger.fold(state, ledger.encode(record))


def header(state: State, applied: int = -1) -> Header:
    return ledger.next_header(state, "w", "t", max(applied, state.applied_through))


def replacing(state: State, applied: int = -1, **fields: object) -> ledger.Replace:
    """A merge of what is in one folder, by all that is applied, or as the fields say."""
    known = {
        "token": "t",
        "purpose": Purpose.COMPACT,
        "listed": LIST,
        "read_through": max(applied, state.applied_through),
        "folders": ("clicks/dt=1",),
        "slices": (Slice(TP, OffsetRange(0, 30)),),
    }
    return ledger.Replace(header=header(state, applied), **{**known, **fields})  # type: ignore[arg-type]


@pytest.fixture
def opened() -> State:
    """A lane with one slot, its OPEN."""
    first = Header(0, "", 1, "w", "t")
    return after(
        State(),
        ledger.Open(header=first, group="g", lane="l", generation=1, software="0"),
    )


def test_a_replacement_is_due_until_it_is_applied(opened: State) -> None:
    state = after(opened, replacing(opened))

    assert {slot: each.listed for slot, each in state.replacing.items()} == {1: LIST}
    assert decode_state(encode_state(state)) == state

    applied, visible = ledger.fold_applied(
        state, ledger.encode(ledger.Applied(header=header(state, 1)))
    )

    assert applied.replacing == {}
    assert visible.replacements == ((1, LIST),)


def test_what_retires_later_is_remembered_until_nothing_is_left(opened: State) -> None:
    state = after(opened, replacing(opened, retires_later=True))
    state = after(state, ledger.Applied(header=header(state, 1)))

    assert (state.replacing, state.applied_through) == ({}, 1)
    assert {slot: each.listed for slot, each in state.retiring.items()} == {1: LIST}
    assert decode_state(encode_state(state)) == state

    gone = after(state, ledger.Retired(header=header(state), slots=(1,)))

    assert gone.retiring == {}


@pytest.mark.parametrize("slots", [(), (1, 1), (2, 1), (0,)])
def test_only_what_is_applied_and_left_has_retired(opened: State, slots: tuple[int, ...]) -> None:
    state = after(opened, replacing(opened, retires_later=True))
    state = after(state, ledger.Applied(header=header(state, 1)))

    with pytest.raises(Stalled, match=r"slots of REPLACEs|which retires nothing"):
        after(state, ledger.Retired(header=header(state), slots=slots))


def test_what_is_not_applied_has_not_retired(opened: State) -> None:
    state = after(opened, replacing(opened, retires_later=True))

    with pytest.raises(Stalled, match="slot 1, which retires nothing"):
        after(state, ledger.Retired(header=header(state), slots=(1,)))


def test_a_list_from_before_another_replacement_of_its_folder_is_refused(opened: State) -> None:
    state = after(opened, replacing(opened))

    with pytest.raises(Stalled, match="objects in clicks/dt=1 were replaced in slot 1"):
        after(state, replacing(state))

    other = after(state, replacing(state, folders=("clicks/dt=2",)))
    again = after(other, replacing(other, applied=1))
    assert [*again.replacing] == [2, 3]


def test_to_have_read_another_replacement_is_not_enough(opened: State) -> None:
    # Until it is applied, what it retires counts for readers, and would be merged again.
    state = after(opened, replacing(opened))

    with pytest.raises(Stalled, match="made by slot 1, and everything is applied up to slot -1"):
        after(state, replacing(state, read_through=1))


def test_only_the_last_folders_are_remembered(opened: State) -> None:
    first = after(opened, replacing(opened))
    many = tuple(f"clicks/dt={n:05}" for n in range(2, MAX_FOLDERS + 1))
    full = after(first, replacing(first, folders=many))
    assert len(full.replaced) == MAX_FOLDERS

    state = after(full, replacing(full, folders=("clicks/zz",)))

    assert "clicks/dt=1" not in state.replaced
    assert state.replaced_known_from == 1
    assert decode_state(encode_state(state)) == state
    with pytest.raises(Stalled, match="before slot 1 it is not known"):
        after(state, replacing(state, folders=("clicks/other",)))
    after(state, replacing(state, applied=1, folders=("clicks/dt=1",)))


def test_another_one_may_take_the_place_of_a_replacement_that_is_not_applied(
    opened: State,
) -> None:
    state = after(opened, replacing(opened))
    second = Replacement("second", "1" * 64, 4, 30, 1, 30)
    state = after(state, replacing(state, listed=second, instead=1, read_through=1))
    third = Replacement("third", "2" * 64, 5, 30, 1, 30)

    state = after(state, replacing(state, listed=third, instead=2, read_through=2))

    assert [*state.replacing] == [3]
    assert state.replacing[3].listed == third
    assert state.replacing[3].given_up == (LIST, second)
    assert decode_state(encode_state(state)) == state


def test_who_takes_the_place_of_a_replacement_has_names_by_its_slot(opened: State) -> None:
    # By what is applied, they could be those of the other one.
    state = after(opened, replacing(opened))

    with pytest.raises(Stalled, match="is instead of slot 1, and made by slot -1"):
        after(state, replacing(state, instead=1))


def test_what_is_applied_is_not_given_up(opened: State) -> None:
    state = after(opened, replacing(opened))

    with pytest.raises(Stalled, match="slot 1, which is applied"):
        after(state, replacing(state, applied=1, instead=1, read_through=1))
    state = after(state, ledger.Applied(header=header(state, 1)))
    with pytest.raises(Stalled, match="slot 1, which is no REPLACE to be applied"):
        after(state, replacing(state, instead=1))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"listed": Replacement("l", "0" * 64, 3, 30, 1, 29)}, "30 rows into such of 29"),
        ({"listed": Replacement("l", "0" * 64, 3, 30, 1, 31)}, "30 rows into such of 31"),
        ({"duplicates": 1}, "leaves out 1 duplicates"),
        ({"duplicates": -1}, "leaves out -1 duplicates"),
        ({"duplicates": 1, "purpose": Purpose.UNDO}, "leaves out 1 duplicates"),
        ({"listed": Replacement("l", "0" * 64, 0, 0, 0, 0)}, "replaces 0 objects by 0"),
        (
            {"listed": Replacement("l", "0" * 64, MAX_OBJECTS, 0, 1, 0)},
            f"replaces {MAX_OBJECTS} objects by 1",
        ),
        (
            {"folders": tuple(f"{n:06}" for n in range(MAX_FOLDERS + 1))},
            f"in {MAX_FOLDERS + 1} folders",
        ),
    ],
)
def test_bad_replacements_are_refused(
    opened: State, fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(Stalled, match=problem):
        after(opened, replacing(opened, **fields))


@pytest.mark.parametrize("folders", [(), ("b", "a"), ("a", "a")])
def test_folders_are_sorted(opened: State, folders: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="folders of replaced objects"):
        replacing(opened, folders=folders)


def test_left_out_duplicates_count_once_applied_and_decisions_at_once(opened: State) -> None:
    listed = Replacement("l", "0" * 64, 3, 30, 1, 28)
    decision = Decision("compact", "kim", "too small", "t", id="c1")

    state = after(opened, replacing(opened, listed=listed, duplicates=2, decision=decision))
    applied = after(state, ledger.Applied(header=header(state, 1)))

    assert (state.totals, state.decision_ids) == (opened.totals, ("c1",))
    assert decode_state(encode_state(state)) == state
    totals = applied.totals
    assert (totals.duplicates, totals.retired, totals.replacing) == (2, 3, 1)


NOTHING = Replacement("nothing", "3" * 64, 0, 0, 0, 0)


def giving_up(state: State, slot: int, **fields: object) -> ledger.Replace:
    known = {"purpose": Purpose.UNDO, "listed": NOTHING, "slices": (), "retires_later": True}
    return replacing(state, **{**known, "instead": slot, "read_through": slot, **fields})  # type: ignore[arg-type]


def test_what_is_given_up_by_nothing_counts_nowhere_and_is_cleaned_up(opened: State) -> None:
    listed = Replacement("l", "0" * 64, 3, 30, 1, 28)
    state = after(opened, replacing(opened, listed=listed, duplicates=2, retires_later=True))

    given_up = after(state, giving_up(state, 1))
    applied, visible = ledger.fold_applied(
        given_up, ledger.encode(ledger.Applied(header=header(given_up, 2)))
    )

    assert given_up.replacing[2].given_up == (listed,)
    assert applied.totals == opened.totals
    assert visible.replacements == ((2, NOTHING),)
    assert [*applied.retiring] == [2]


def again(state: State, slot: int, **fields: object) -> ledger.Replace:
    known = {"instead": slot, "again": True, "read_through": -1, "retires_later": True}
    return replacing(state, **{**known, **fields})  # type: ignore[arg-type]


def test_what_is_decided_again_lets_what_came_in_between_be_applied(opened: State) -> None:
    state = after(opened, replacing(opened, retires_later=True))

    later = after(state, again(state, 1))
    between, nothing = ledger.fold_applied(
        later, ledger.encode(ledger.Applied(header=header(later, 1)))
    )
    applied, visible = ledger.fold_applied(
        between, ledger.encode(ledger.Applied(header=header(between, 2)))
    )

    assert later.replacing == {2: state.replacing[1]}
    assert later.replaced == {"clicks/dt=1": 2}
    assert nothing.replacements == ()
    assert visible.replacements == ((2, LIST),)
    assert [*applied.retiring] == [2]
    assert (applied.totals.retired, applied.totals.replacing) == (3, 1)
    assert decode_state(encode_state(between)) == between


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"listed": NOTHING}, "decides slot 1 again, and is another one"),
        ({"retires_later": False}, "decides slot 1 again, and is another one"),
        ({"folders": ("clicks/dt=2",)}, "decides slot 1 again, and not in clicks/dt=1"),
        ({"instead": -1}, "decides slot -1 again, which is no REPLACE to be applied"),
        ({"instead": 0}, "decides slot 0 again, which is no REPLACE to be applied"),
    ],
)
def test_only_the_same_replacement_is_decided_again(
    opened: State, fields: dict[str, object], problem: str
) -> None:
    state = after(opened, replacing(opened, retires_later=True))

    with pytest.raises(Stalled, match=problem):
        after(state, again(state, 1, **fields))


def test_what_is_applied_is_not_decided_again(opened: State) -> None:
    state = after(opened, replacing(opened, retires_later=True))

    with pytest.raises(Stalled, match="slot 1, which is applied"):
        after(state, again(state, 1, applied=1))


def test_nothing_is_replaced_by_nothing_unless_another_one_is_given_up(opened: State) -> None:
    with pytest.raises(Stalled, match="replaces 0 objects by 0"):
        after(opened, replacing(opened, listed=NOTHING))
