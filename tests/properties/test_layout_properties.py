from hypothesis import assume, given
from hypothesis import strategies as st

from landfall.ledger.names import object_names
from landfall_audit import basenames

topics = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(
    lambda t: t not in {".", "..", object_names.SYSTEM}
)
directories = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/"), min_size=1, max_size=30
)
partitions = st.lists(
    directories.filter(lambda d: d not in {".", ".."}), min_size=1, max_size=4
).map("/".join)
numbers = st.integers(0, 2**31 - 1)
offsets = st.integers(0, object_names.MAX_OFFSET)
places = st.tuples(st.integers(0, 10**10 - 1), st.integers(0, 10**10 - 1))
plans = st.integers(-1, 10**10 - 2)
extensions = st.from_regex(r"(\.[A-Za-z0-9_-]{1,8}){0,3}", fullmatch=True)


destinations = st.lists(st.builds("{}={}".format, directories, directories), max_size=3).map(
    "/".join
)


@given(topics, partitions, numbers, numbers, offsets, extensions, destinations, plans)
def test_parsing_a_key_gives_back_what_made_it(
    topic: str,
    output_partition: str,
    generation: int,
    partition: int,
    start: int,
    extension: str,
    destination: str,
    plan: int,
) -> None:
    name = object_names.ObjectName(
        topic, output_partition, generation, partition, start, extension, destination, plan
    )

    assert object_names.parse_key(name.key) == name
    found = basenames.named(name.key)
    assert (found.generation, found.partition, found.start) == (generation, partition, start)
    assert found.plan == (None if name.planned_by < 0 else name.planned_by)


in_a_folder = st.builds(
    object_names.ObjectName,
    st.just("clicks"),
    st.just("dt=2026-11-21"),
    numbers,
    numbers,
    offsets,
    st.one_of(extensions, st.builds(".r{}{}".format, st.integers(0, 10**12), extensions)),
    plan=plans,
)


@given(in_a_folder, in_a_folder, st.integers(0, 10**10 - 2))
def test_a_name_sorts_after_all_that_it_may_replace(
    old: object_names.ObjectName, named_after: object_names.ObjectName, plan: int
) -> None:
    """A folder that is read in the order of names ends with what replaced the names before."""
    assume(old.plan < plan)
    new = object_names.renamed(named_after.key, plan)

    assert old.key < new
    assert new < object_names.renamed(new, plan + 1)  # as an undoing does
    assert object_names.parse_key(new).planned_by == plan
    assert basenames.unplanned(new) == basenames.unplanned(named_after.key)


@given(st.text())
def test_a_key_that_parses_is_the_key_of_what_it_parses_to(text: str) -> None:
    try:
        name = object_names.parse_key(text)
    except ValueError:
        return
    assert name.key == text


@given(places, places)
def test_slots_sort_as_their_places_and_parse_back(a: tuple[int, int], b: tuple[int, int]) -> None:
    first, second = (object_names.slot_key("group", "main", *place) for place in (a, b))

    assert (first < second) == (a < b)
    assert object_names.parse_slot_key("group", "main", first) == a
