"""A segment says which DISCOVER numbered a part of a file."""

from landfall.ledger import Add, Discover, Entry, Header, Open, PartList, State, encode, fold
from landfall.ledger.feeds import SPAN
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.segments import bucket_of, build, read_entries
from landfall.ledger.state import next_header

FEED = TopicPartition("files", 0)


def test_a_segment_names_the_slots_that_numbered_a_part() -> None:
    bodies, state = list[bytes](), State()

    def header() -> Header:
        return next_header(state, "w", "t", -1)

    def opening() -> Open:
        at = Header(state.seq + 1, state.tip, state.epoch + 1, "w", "t")
        return Open(header=at, group="g", lane="0", generation=1, software="0")

    def listed(first: int, end: int) -> Discover:
        parts = PartList("k", "0" * 64, first, end, end - first, 9)
        return Discover(header=header(), topic_partition=FEED, listed=parts)

    for make in (
        opening,
        lambda: Add(header=header(), entries=(Entry(FEED, "id", 0, feed=True),)),
        lambda: listed(0, 2),
        lambda: listed(2, 5),
        opening,
    ):
        bodies.append(encode(make()))
        state = fold(state, bodies[-1])

    built = build("g", 1, 0, bodies[1:], lambda _: ())

    span = built.directory.index[bucket_of("files", 0)]
    entries = read_entries(built.body[span.start : span.start + span.length])
    assert [(e.at, e.start, e.end, e.begins) for e in entries] == [
        (1, 0, 0, True),
        (2, 0, 2 * SPAN, False),
        (3, 2 * SPAN, 5 * SPAN, False),
    ]
