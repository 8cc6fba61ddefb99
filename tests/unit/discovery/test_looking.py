"""One look at a bucket: what gets numbers, what waits, and where the next look begins."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from landfall.discovery import looking
from landfall.discovery.known import FileState, KnownFile
from landfall.discovery.looking import FoundFile, LookPosition, SkippedFiles, Waiting, look
from landfall.discovery.rules import DiscoveryRules, OnChange
from landfall.formats.parts import FilePart
from landfall.formats.readers import reader_of
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
READER = reader_of("JsonLines", {})
SETTLE = timedelta(seconds=30)


def cut(name: str, size: int) -> tuple[FilePart, ...]:
    return READER.parts(name, size, 10)


RULES = DiscoveryRules(cut)
NOWHERE = LookPosition()


def file(name: str, age: float = 3600, size: int = 10, etag: str = "e") -> ListedFile:
    return ListedFile(name, etag, size, NOW - timedelta(seconds=age))


def known_of(listed: ListedFile, to: int | None = None) -> KnownFile:
    done = listed.size if to is None else to
    return KnownFile(listed.name, listed.etag, listed.size, done, 0)


def looks(
    *files: ListedFile,
    known: Sequence[KnownFile] = (),
    position: LookPosition = NOWHERE,
    rules: DiscoveryRules = RULES,
) -> looking.LookResult:
    return look(files, {k.name: k for k in known}.get, position, rules, NOW)


def names(found: looking.LookResult) -> list[str]:
    return [each.file.name for each in found.files]


def test_new_changed_and_known_files_differ() -> None:
    new, same, written, grown = file("a"), file("b"), file("c", etag="e2"), file("d", size=11)
    before = [known_of(same), known_of(file("c")), known_of(file("d"))]

    found = looks(new, same, written, grown, known=before)

    one = (FilePart(0, 10),)
    assert found.files == (
        FoundFile(new, FileState.NEW, one),
        FoundFile(written, FileState.CHANGED, one),
        FoundFile(grown, FileState.CHANGED, cut("d", 11)),
    )
    assert found.position == LookPosition("d", relisted=NOW)


def test_parts_are_numbered_by_time_and_name() -> None:
    found = looks(file("a", age=10), file("b", age=20, size=12), file("c", age=20))

    ms = int((NOW - timedelta(seconds=20)).timestamp() * 1000)
    assert found.parts() == (
        ListedPart("b", "e", 12, ms, 0, 6),
        ListedPart("b", "e", 12, ms, 6, 12),
        ListedPart("c", "e", 10, ms, 0, 10),
        ListedPart("a", "e", 10, ms + 10_000, 0, 10),
    )


def test_parts_are_numbered_by_name_if_names_are_ordered() -> None:
    rules = replace(RULES, ordered_names=True)

    assert names(looks(file("a", age=10), file("b", age=20), rules=rules)) == ["a", "b"]


def test_only_names_that_count_are_found() -> None:
    rules = DiscoveryRules(cut, include=(r"in/.*", r"also"), exclude=(r".*\.tmp",))
    files = [file(name) for name in ("also", "also2", "in/a", "in/b\nc", "in/x.tmp", "out/in/a")]

    assert names(looks(*files, rules=rules)) == ["also", "in/a", "in/b\nc"]


def test_a_file_waits_until_it_has_settled() -> None:
    rules = replace(RULES, settle=SETTLE)

    found = looks(file("a"), file("b", age=29), file("c", age=30), rules=rules)

    assert names(found) == ["a", "c"]
    assert found.waiting_files == 1
    waiting, since = {"b": Waiting(10, "e", NOW)}, NOW - timedelta(seconds=29)
    expected = LookPosition("c", "a", waiting=waiting, relisted=NOW, behind=1, waits_since=since)
    assert found.position == expected
    assert found.position.start_after(rules, NOW) == "a"


def test_since_when_files_wait_holds_for_all_that_a_listing_has() -> None:
    rules = replace(RULES, settle=SETTLE, most_parts=1)
    ahead = file("c", age=-3600)

    first = looks(file("a", age=20), file("b"), ahead, file("d"), rules=rules)
    second = looks(file("d"), rules=rules, position=first.position)
    third = looks(file("a"), ahead, rules=rules, position=second.position)

    assert [each.position.has_more for each in (first, second, third)] == [True, False, False]
    since = [each.position.waits_since for each in (first, second, third)]
    assert since == [NOW - timedelta(seconds=20)] * 2 + [NOW]


def test_a_file_that_is_not_as_it_was_at_the_last_look_waits() -> None:
    rules = replace(RULES, settle=SETTLE)
    before = LookPosition("b", "", waiting={"a": Waiting(9, "e", NOW)}, relisted=NOW)

    found = looks(file("a", age=3600), rules=rules, position=before)

    assert names(found) == []
    assert names(looks(file("a", age=3600), rules=rules, position=found.position)) == ["a"]


def test_a_file_of_the_future_settles_once_it_was_seen_for_long_enough() -> None:
    rules = replace(RULES, settle=SETTLE)
    seen = {"a": Waiting(10, "e", NOW - SETTLE), "b": Waiting(10, "e", NOW)}
    position = LookPosition("b", "", waiting=seen, relisted=NOW)

    found = looks(file("a", age=-(10**7)), file("b", age=-1), rules=rules, position=position)

    assert names(found) == ["a"]
    assert [*found.position.waiting] == ["b"]


def test_of_too_many_that_wait_the_first_ones_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "MAX_WAITING", 2)
    rules = replace(RULES, settle=SETTLE)

    found = looks(*(file(name, age=0) for name in "bcd"), file("e"), rules=rules)

    assert ([*found.position.waiting], found.waiting_files) == (["b", "c"], 3)
    assert found.position.start_after(rules, NOW) == ""
    assert names(looks(*map(file, "bcd"), position=found.position, rules=rules)) == ["b", "c", "d"]


def test_a_file_without_room_goes_whole_into_the_next_list() -> None:
    rules = replace(RULES, most_parts=3)
    files = [file("a", size=20), file("b", size=20), file("c")]

    first = looks(*files, rules=rules)
    second = looks(*files[1:], rules=rules, position=first.position)

    assert (names(first), first.has_more) == (["a"], True)
    assert first.position.start_after(rules, NOW + timedelta(days=1)) == "a"
    assert (names(second), second.has_more) == (["b", "c"], False)


def test_a_file_with_more_parts_than_a_list_is_split() -> None:
    rules = replace(RULES, most_parts=3)
    large, small = file("b", size=45), file("c", age=10**6)

    first = looks(large, small, rules=rules)
    done = first.files[0].parts[-1].end
    second = looks(large, small, rules=rules, known=[known_of(large, done)])

    assert first.files == (FoundFile(large, FileState.NEW, cut("b", 45)[:3]),)
    assert first.position.start_after(rules, NOW) == ""
    assert second.files == (
        FoundFile(large, FileState.STARTED, cut("b", 45)[3:]),
        FoundFile(small, FileState.NEW, (FilePart(0, 10),)),
    )


def test_what_is_left_of_a_file_begins_where_its_parts_ended() -> None:
    started = known_of(file("a", size=25), to=13)

    found = looks(file("a", size=25), known=[started])

    assert found.files[0].parts == (FilePart(13, 16), FilePart(16, 25))


def test_what_waits_is_looked_at_once_the_listing_has_ended() -> None:
    rules = replace(RULES, settle=SETTLE, most_parts=1)
    waiting = file("a", age=0)

    first = looks(waiting, file("b"), file("c"), rules=rules)
    second = looks(file("c"), rules=rules, position=first.position)

    assert (first.position.start_after(rules, NOW), names(first)) == ("b", ["b"])
    assert (second.position.start_after(rules, NOW), names(second)) == ("", ["c"])
    assert second.position.waiting == {"a": Waiting(10, "e", NOW)}


def test_all_names_are_listed_when_it_is_time() -> None:
    position = LookPosition("x", relisted=NOW)

    assert position.start_after(RULES, NOW + RULES.relist - timedelta(seconds=1)) == "x"
    assert position.start_after(RULES, NOW + RULES.relist) == ""
    assert LookPosition("x").start_after(RULES, NOW) == ""


def test_changed_files_can_be_ignored() -> None:
    rules = replace(RULES, on_change=OnChange.IGNORE)

    found = looks(file("a", etag="e2"), file("b"), known=[known_of(file("a"))], rules=rules)

    skipped = SkippedFiles(1, (("a", "was written again"),), ("a",))
    assert (names(found), found.skipped) == (["b"], skipped)


def test_a_file_that_its_reader_cannot_cut_holds_up_no_other() -> None:
    def fails(name: str, size: int) -> tuple[FilePart, ...]:
        if name == "b":
            raise KeyError("secret")
        return cut(name, size)

    found = looks(file("a"), file("b"), file("c"), rules=replace(RULES, cut=fails))

    why = "the reader failed: KeyError"
    assert (names(found), found.skipped.reasons) == (["a", "c"], (("b", why),))
    assert (found.skipped.refused, found.skipped.first_refused) == (1, f"'b': {why}")


def test_a_changed_file_of_which_nothing_is_landed_takes_its_place_in_any_case() -> None:
    was = [known_of(file("a", etag="old")), known_of(file("b", etag="old"))]
    rules = replace(RULES, on_change=OnChange.IGNORE, is_unlanded="a".__eq__)

    found = looks(file("a"), file("b"), known=was, rules=rules)

    assert [(each.file.name, each.state) for each in found.files] == [("a", FileState.CHANGED)]
    assert found.skipped.changed == ("b",)


def test_a_file_with_the_contents_of_another_is_no_new_one() -> None:
    def other(each: ListedFile) -> str | None:
        return "first" if each.etag == "old" else None

    rules = replace(RULES, same_contents=other)
    started = known_of(file("e", size=20, etag="old"), to=10)
    files = [file("a", etag="old"), file("b", etag="x"), file("c", etag="x"), file("d", etag="")]
    files += [file("e", size=20, etag="old"), file("f", etag="x", size=9)]
    files += [file("g", etag="old", size=0)]

    found = looks(*files, known=[started], rules=rules)

    assert names(found) == ["e", "b", "d", "f", "g"]
    assert (found.skipped.files, found.skipped.duplicates) == (2, 2)
    assert found.skipped.reasons == (
        ("a", "has the contents of 'first', by ETag old"),
        ("c", "has the contents of 'b', by ETag x"),
    )


def test_a_name_of_a_hint_is_looked_up_before_the_listing_goes_on() -> None:
    position = LookPosition("m", relisted=NOW).with_hints(["b", "c", "z"])

    found = looks(file("b"), file("z"), position=position)

    assert names(found) == ["b", "z"]
    assert found.position == LookPosition("z", relisted=NOW, late=frozenset("c"))


def test_a_late_file_that_has_not_settled_is_looked_up_again() -> None:
    rules = replace(RULES, settle=SETTLE)
    position = LookPosition("m", relisted=NOW).with_hints(["b"])

    found = looks(file("b", age=0), rules=rules, position=position)

    waiting, late = {"b": Waiting(10, "e", NOW)}, frozenset("b")
    assert found.position == LookPosition("m", None, False, waiting, NOW, late, waits_since=NOW)
    assert found.position.start_after(rules, NOW) == "m"


def test_since_when_a_late_file_waits_holds_if_the_store_does_not_answer() -> None:
    rules = replace(RULES, settle=SETTLE)
    first = looks(
        file("b", age=0), rules=rules, position=LookPosition("m", relisted=NOW).with_hints("b")
    )

    found = looks(file("n"), rules=rules, position=first.position)

    assert (found.position.late, found.position.waits_since) == (frozenset("b"), NOW)


def test_files_that_wait_are_remembered_before_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PAGE_FILES", 1)
    monkeypatch.setattr(looking, "MAX_LATE", 2)
    position = LookPosition("d", relisted=NOW).with_hints("ab")

    found = looks(
        file("x", age=0),
        file("y"),
        file("z"),
        rules=replace(RULES, settle=SETTLE),
        position=position,
    )

    assert (found.position.late, found.position.back_to) == (frozenset("ax"), None)


def test_a_late_file_without_room_is_looked_up_again() -> None:
    rules = replace(RULES, most_parts=3)
    position = LookPosition("m", relisted=NOW).with_hints("abc")

    found = looks(file("a", size=20), file("b", size=20), file("c"), rules=rules, position=position)

    assert (names(found), found.has_more) == (["a"], True)
    assert found.position.late == frozenset("bc")
    assert found.position.start_after(rules, NOW) == "m"


def test_a_limited_number_of_names_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MAX_LATE", 3)

    position = LookPosition().with_hints("ab").with_hints("cde")

    assert position.late == frozenset("abc")


def test_a_listing_of_all_names_needs_no_late_ones() -> None:
    position = LookPosition("m").with_hints(["b"])

    found = looks(file("a"), file("b"), position=position)

    assert (names(found), found.position.late) == (["a", "b"], frozenset())


def test_a_few_that_wait_far_back_are_looked_up_instead_of_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "PAGE_FILES", 2)
    rules = replace(RULES, settle=SETTLE)
    files = [file("b", age=0), *map(file, "cdefg")]

    found = looks(*files, rules=rules, known=[known_of(each) for each in files[1:]])

    waiting, late = {"b": Waiting(10, "e", NOW)}, frozenset("b")
    assert found.position == LookPosition("g", None, False, waiting, NOW, late, waits_since=NOW)
    assert found.position.start_after(rules, NOW) == "g"


def test_names_that_cannot_be_read_are_reported() -> None:
    packed, long = file("a.lzo"), file("b" * 1025)

    found = looks(packed, long, file("c"))

    assert names(found) == ["c"]
    assert found.skipped.files == 2
    assert ".lzo" in found.skipped.reasons[0][1]
    assert "a name of 1025 bytes" in found.skipped.reasons[1][1]


def test_of_many_files_without_numbers_the_first_are_named() -> None:
    found = looks(*(file(f"{n:03d}.lzo") for n in range(150)))

    assert (found.skipped.files, len(found.skipped.reasons)) == (150, looking.MAX_REPORTED)


def test_a_listing_that_is_not_in_order_is_refused() -> None:
    with pytest.raises(ValueError, match="lists 'a' after 'b'"):
        looks(file("b"), file("a"))
    with pytest.raises(ValueError, match="lists 'a' after 'x'"):
        looks(file("a"), position=LookPosition("x", relisted=NOW))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"include": ("a", "(")}, r"include: not a regular expression: '\('"),
        ({"exclude": ("[",)}, r"exclude: not a regular expression: '\['"),
        ({"settle": -SETTLE}, "settle and relist may not be negative"),
        ({"most_parts": 10_001}, "most_parts: not from 1 to 10000: 10001"),
    ],
)
def test_rules_that_cannot_be_are_refused(wrong: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(RULES, **wrong)
