"""Date patterns of Java become directives, or are refused."""

from datetime import UTC, datetime

import pytest

from landfall_migrate.dates import JODA, TO_READ, TO_WRITE, directives


@pytest.mark.parametrize(
    ("pattern", "letters", "expected"),
    [
        ("yyyy-MM-dd", TO_WRITE, "%Y-%m-%d"),
        ("yyyyMMdd", TO_WRITE, "%Y%m%d"),
        ("yyyy/MM/dd", TO_WRITE, "%Y/%m/%d"),
        ("'day'DDD", TO_WRITE, "day%j"),
        ("'o''clock 'HH", TO_WRITE, "o'clock %H"),
        ("''yy", TO_WRITE, "'%y"),
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", JODA, "year=%Y/month=%m/day=%d/hour=%H"),
        ("xxxx-'W'ww-e", JODA, "%G-W%V-%u"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", TO_READ, "%Y-%m-%dT%H:%M:%S.%f%z"),
        ("EEE MMM d HH:mm:ss yyyy", TO_READ, "%a %b %d %H:%M:%S %Y"),
        ("100% yyyy", TO_READ, "100%% %Y"),
    ],
)
def test_a_pattern_has_directives(pattern: str, letters: dict[str, str], expected: str) -> None:
    assert directives(pattern, letters) == expected


@pytest.mark.parametrize(
    ("pattern", "letters", "message"),
    [
        ("YYYY-MM-dd", TO_WRITE, "YYYY has no counterpart (the year of the week: yyyy is the"),
        ("kk", TO_WRITE, "kk has no counterpart (1 to 24)"),
        ("d", TO_WRITE, "d has no counterpart"),
        ("MMMM", TO_WRITE, "MMMM has no counterpart"),
        ("yyyy'", TO_WRITE, "a quote is not closed"),
        ("'{x}'yyyy", TO_WRITE, "'{x}' cannot stand in a route"),
        ("w", TO_READ, "w has no counterpart"),
    ],
)
def test_what_has_none_is_refused(pattern: str, letters: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=r".+") as refused:
        directives(pattern, letters)

    assert str(refused.value).startswith(message)


def test_a_time_in_javas_form_is_read_by_the_directives() -> None:
    format_ = directives("yyyy-MM-dd HH:mm:ss.SSS XX", TO_READ)

    read = datetime.strptime("2026-11-21 04:05:06.007 +0000", format_)  # noqa: DTZ007  # it has XX

    assert read == datetime(2026, 11, 21, 4, 5, 6, 7000, tzinfo=UTC)
