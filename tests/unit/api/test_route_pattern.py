"""Patterns that are surely meant otherwise are refused, with what they are in our notation."""

import pytest

from landfall.api.route_pattern import Token, TokenKind, checked_pattern, checked_topic_path, tokens


def refusal(pattern: str) -> str:
    with pytest.raises(ValueError, match=r"\w") as refused:
        checked_pattern(pattern)
    return str(refused.value)


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ("'dt='YYYY-MM-dd", "dt=%Y-%m-%d"),
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "year=%Y/month=%m/day=%d/hour=%H"),
        ("yyyy/MM/dd", "%Y/%m/%d"),
        ("dt=yyyyMMdd/hr=HHmm", "dt=%Y%m%d/hr=%H%M"),
        ("dt=%Y-MM-dd", "dt=%Y-%m-%d"),
        ("dt={date}/hr=HH", "dt={date}/hr=%H"),
        ("dt='{date}'", "dt={date}"),
        ("uuuu/DDD", "%Y/%j"),
        ("yyyy=yyyy", "yyyy=%Y"),
    ],
)
def test_a_pattern_in_javas_notation_is_refused_with_ours(java: str, ours: str) -> None:
    message = refusal(java)

    assert message.startswith("looks like a date pattern of Java, and would be taken as text: ")
    assert message.endswith(f"dates are written as in {ours!r}")
    assert checked_pattern(ours) == ours


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("{dt}", "did you mean {date}?"),
        ("{hr}", "did you mean {hour}?"),
        ("{HH}", "did you mean {hour}?"),
        ("{YYYY}/{MM}", "did you mean {time:%Y}?"),
        ("{partition}", "did you mean {kafka_partition}?"),
        ("{Topic}", "did you mean {topic}?"),
        ("{kafka-partition}", "did you mean {kafka_partition}?"),
        ("%B", "did you mean %b?"),
        ("%D", "did you mean %F?"),
        ("%h", "did you mean %b?"),
        ("%f", "did you mean %F?"),
        ("dt=${date}", "write 'dt={date}' instead of 'dt=${date}'"),
        ("%Y-%M-%d", "write '%Y-%m-%d' instead of '%Y-%M-%d'"),
        ("%Y%M%d", "write '%Y%m%d' instead of '%Y%M%d'"),
        ("{minute:7}", "{minute:N} takes one of 2, 3, 4, 5, 6, 10, 12, 15, 20, 30"),
        ("{minute:}", "{minute:N} takes one of"),
    ],
)
def test_the_right_spelling_is_suggested(pattern: str, hint: str) -> None:
    assert hint in refusal(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "dt={date}/hr={hour}",
        "yyyy=%Y/MM=%m/dd=%d",
        "data/added/{topic}",
        "{field:yyyy}/{field:MM}",
        "{time:%H.%M}",
        "%Y-%m-%dT%H%M",
        "comments",
    ],
)
def test_a_good_pattern_is_taken(pattern: str) -> None:
    assert checked_pattern(pattern) == pattern


def test_a_pattern_is_its_tokens() -> None:
    assert tokens("a{kafka_partition}{minute:15}{time:%b_}{field:x.y}") == (
        Token(TokenKind.TEXT, "a"),
        Token(TokenKind.KAFKA_PARTITION),
        Token(TokenKind.MINUTES, "15"),
        Token(TokenKind.DIRECTIVE, "%b"),
        Token(TokenKind.TEXT, "_"),
        Token(TokenKind.FIELD, "x.y"),
    )


@pytest.mark.parametrize(
    "path",
    [
        "db={field:app}/{topic}",
        "db={header:app}/layer={field:meta.layer}-raw/{topic}",
        "all=1/{topic}",
        "=/{topic}",
    ],
)
def test_a_destination_has_folders_that_no_topic_is_called(path: str) -> None:
    assert checked_topic_path(path) == path


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("db={field:app}", "must end with /{topic}, such as"),
        ("{topic}", "must end with /{topic}, such as"),
        ("/{topic}", "must end with /{topic}, such as"),
        ("db={field:app}/t={topic}", "must end with /{topic}, such as"),
        ("{field:app}/{topic}", "each directory before the topic needs text with =, as in"),
        ("db={field:app}/x/{topic}", "'x' has none"),
        ("db=a//{topic}", "'' has none"),
        ("db={field:a=b}/{field:x=y}/{topic}", "'' has none"),
        ("dt={date}/{topic}", "times belong into route.pattern"),
        ("db={topic}/{topic}", "times belong into route.pattern, and the topic to the end"),
        ("db={when}/{topic}", "unknown placeholder '{when}'"),
    ],
)
def test_a_destination_that_two_topics_could_share_is_refused(path: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the message is compared
        checked_topic_path(path)

    assert message in str(caught.value)


def test_a_header_is_a_placeholder() -> None:
    assert tokens("{header:x-tenant}") == (Token(TokenKind.HEADER, "x-tenant"),)
    with pytest.raises(ValueError, match="a header needs its name"):
        tokens("{header:}")
