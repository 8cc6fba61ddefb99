"""Keys parse back to the values they were made of; a name that would not is rejected."""

import pytest

from landfall.ledger.names import object_names


def test_a_data_object_is_named_as_secor_names_it() -> None:
    key = object_names.ObjectName("app.web", "dt=2026-11-21/hr=04", 3, 7, 1234, ".json.gz").key

    assert key == "app.web/dt=2026-11-21/hr=04/3_7_00000000000000001234.json.gz"
    assert object_names.parse_key(key) == object_names.ObjectName(
        "app.web", "dt=2026-11-21/hr=04", 3, 7, 1234, ".json.gz"
    )


def test_an_extension_may_be_empty() -> None:
    key = object_names.ObjectName("clicks", "all", 0, 0, 0, "").key

    assert object_names.parse_key(key).extension == ""


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\n", "_landfall", "ä", "x" * 250])
def test_an_illegal_topic_is_refused(topic: str) -> None:
    with pytest.raises(ValueError, match="not a topic"):
        object_names.ObjectName(topic, "dt=1", 1, 0, 0, "")


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\nb", "a\x7fb", "a\x85", "\ud800"]
)
def test_directories_that_leave_the_root_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"directories below the output root|control characters"):
        object_names.ObjectName("t", path, 1, 0, 0, "")


@pytest.mark.parametrize(
    ("generation", "partition", "start"), [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 2**63)]
)
def test_numbers_out_of_range_are_refused(generation: int, partition: int, start: int) -> None:
    with pytest.raises(ValueError, match=r"not a generation, Kafka partition and offset"):
        object_names.ObjectName("t", "dt=1", generation, partition, start, "")


@pytest.mark.parametrize("extension", ["gz", ".", "..", ".gz/", ".g z", ".gz\n"])
def test_an_illegal_extension_is_refused(extension: str) -> None:
    with pytest.raises(ValueError, match="not a file extension"):
        object_names.ObjectName("t", "dt=1", 1, 0, 0, extension)


def test_a_key_over_1024_bytes_is_refused() -> None:
    longest = "é" * 497 + "x"

    assert len(object_names.ObjectName("t", longest, 1, 0, 0, ".g").key.encode()) == 1024
    with pytest.raises(ValueError, match="a key of 1025 bytes"):
        object_names.ObjectName("t", longest, 1, 0, 0, ".gz")


@pytest.mark.parametrize(
    "key",
    [
        "t/1_0_00000000000000000000.gz",
        "t/dt=1/01_0_00000000000000000000",
        "t/dt=1/1_0_0000000000000000000",
        "t/dt=1/1_0_00000000000000000000gz",
        "t/dt=1/_SUCCESS",
        "t/dt=1/1_0_99999999999999999999",
        "/t/dt=1/1_0_00000000000000000000",
        "t/dt=1/r9_1_0_00000000000000000000",
        "t/dt=1/r00000000009_1_0_00000000000000000000",
        "_landfall/g/dead-letters/t/1_0_00000000000000000000.parquet",
        "",
    ],
)
def test_a_key_of_no_data_object_is_not_parsed(key: str) -> None:
    with pytest.raises(ValueError, match="not "):
        object_names.parse_key(key)


SEGMENT = object_names.SegmentName(0, 41, 2, "0123456789abcdef")


def test_a_segments_key_parses_back() -> None:
    key = object_names.segment_key("clicks", "main", SEGMENT)

    assert object_names.parse_segment_key("clicks", "main", key) == SEGMENT
    with pytest.raises(ValueError, match="not a segment"):
        object_names.parse_segment_key("clicks", "other", key)


@pytest.mark.parametrize(
    "parts", [(5, 4, 1, "0" * 16), (-1, 4, 1, "0" * 16), (0, 4, 10**10, "0" * 16), (0, 4, 1, "0")]
)
def test_a_segment_of_no_slots_is_refused(parts: tuple[int, int, int, str]) -> None:
    with pytest.raises(ValueError, match="not"):
        object_names.SegmentName(*parts)


@pytest.mark.parametrize("place", [(-1, 0), (0, -1), (10**10, 0), (0, 10**10)])
def test_a_place_beyond_ten_digits_is_refused(place: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not an epoch and an index"):
        object_names.slot_key("clicks", "main", *place)


def test_everything_but_data_is_under_one_folder() -> None:
    assert [
        object_names.owner_key(),
        object_names.ledger_prefix("clicks", "main"),
        object_names.slot_key("clicks", "main", 3, 42),
        object_names.head_key("clicks", "main"),
        object_names.snapshot_key("clicks", "main", 42),
        object_names.segment_key("clicks", "main", SEGMENT),
        object_names.dead_letter_key("clicks", "app.web", 3, 7, 9),
    ] == [
        "_landfall/owner.json",
        "_landfall/clicks/main/",
        "_landfall/clicks/main/0000000003/0000000042.json",
        "_landfall/clicks/main-head.json",
        "_landfall/clicks/main-snapshots/00000000000000000042.json",
        f"_landfall/clicks/main-segments/{0:020d}-{41:020d}-{2:010d}-0123456789abcdef.seg",
        "_landfall/clicks/dead-letters/app.web/3_7_00000000000000000009.parquet",
    ]


@pytest.mark.parametrize(
    "lane", ["", "a/b", "..", "a.b", "dead-letters", "a-snapshots", "a-segments", "Main", "x" * 64]
)
def test_a_lane_that_could_collide_is_refused(lane: str) -> None:
    with pytest.raises(ValueError, match="not a lane name"):
        object_names.ledger_prefix("clicks", lane)


@pytest.mark.parametrize("group", ["", "..", "a/b", "owner.json", "Clicks", "x" * 64])
def test_a_group_that_could_collide_is_refused(group: str) -> None:
    with pytest.raises(ValueError, match="not a group name"):
        object_names.ledger_prefix(group, "main")


@pytest.mark.parametrize(
    "key",
    [
        "_landfall/clicks/main/42.json",
        "_landfall/clicks/main/00000000000000000042.json",
        "_landfall/clicks/main-head.json",
        "00000000000000000042.json",
    ],
)
def test_a_key_of_no_slot_is_not_parsed(key: str) -> None:
    with pytest.raises(ValueError, match="not a slot"):
        object_names.parse_slot_key("clicks", "main", key)


@pytest.mark.parametrize(
    ("extension", "slot"),
    [(".r42.json.gz", 42), (".r0", 0), (".json.gz", -1), ("", -1), (".r42x.gz", -1), (".r01", -1)],
)
def test_a_name_says_by_which_plan_its_object_took_the_place_of_others(
    extension: str, slot: int
) -> None:
    name = object_names.ObjectName("clicks", "dt=1", 3, 7, 42, extension)

    assert object_names.parse_key(name.key) == name
    assert object_names.origin("shop", name.key).plan == slot


def test_a_copy_of_what_retired_has_the_slot_and_its_former_key() -> None:
    key = "web/dt=2026-11-21/3_0_00000000000000000042.json.gz"
    kept = object_names.retired_key("clicks", "main", 977, key)
    assert kept == f"_landfall/clicks/main-retired/00000000000000000977/{key}"
    assert kept.startswith(object_names.retired_prefix("clicks", "main"))


def test_a_copy_whose_key_would_be_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1024"):
        object_names.retired_key("clicks", "main", 977, "k" * 1000)


@pytest.mark.parametrize(
    ("key", "new"),
    [
        ("web/dt=1/3_0_00000000000000000042", "web/dt=1/r0000000009_3_0_00000000000000000042"),
        (
            "web/dt=1/3_0_00000000000000000042.json.gz",
            "web/dt=1/r0000000009_3_0_00000000000000000042.json.gz",
        ),
        (
            "web/dt=1/r0000000007_3_0_00000000000000000042.json.gz",
            "web/dt=1/r0000000009_3_0_00000000000000000042.json.gz",
        ),
        (  # of older software
            "web/dt=1/3_0_00000000000000000042.r7.json.gz",
            "web/dt=1/r0000000009_3_0_00000000000000000042.json.gz",
        ),
        (
            "_landfall/clicks/dead-letters/web/3_0_00000000000000000042.parquet",
            "_landfall/clicks/dead-letters/web/r0000000009_3_0_00000000000000000042.parquet",
        ),
    ],
)
def test_an_object_that_takes_the_place_of_another_has_its_name_with_the_plan(
    key: str, new: str
) -> None:
    assert object_names.renamed(key, 9) == new
    assert object_names.origin("clicks", new) == object_names.origin("clicks", key)
    assert object_names.origin("clicks", new).plan == 9
    assert key < new


def test_dead_letters_in_a_place_of_their_own_have_its_name_and_the_same_origin() -> None:
    place = "0123456789abcdef"
    key = object_names.dead_letter_key("clicks", "web", 3, 7, 9, place=place)
    plain = object_names.dead_letter_key("clicks", "web", 3, 7, 9)

    assert key == f"_landfall/clicks/dead-letters@{place}/web/3_7_00000000000000000009.parquet"
    assert object_names.origin("clicks", key) == object_names.origin("clicks", plain)
    assert object_names.letters_place(object_names.renamed(key, 5)) == place
    assert (
        object_names.letters_place(f"_landfall/clicks/0-retired/00000000000000000007/{key}")
        == place
    )
    assert object_names.letters_place(f"_landfall/clicks/side/fix/{key}") == place
    assert object_names.letters_place(plain) == ""
    assert object_names.letters_place(f"web/dt=1/{key}") == ""


@pytest.mark.parametrize(
    "place", ["x", "0123456789ABCDEF", "0123456789abcde/", "../../../../../.."]
)
def test_a_place_has_a_name_of_hexadecimal_digits(place: str) -> None:
    with pytest.raises(ValueError, match="16 hexadecimal digits"):
        object_names.dead_letter_key("clicks", "web", 3, 7, 9, place=place)
