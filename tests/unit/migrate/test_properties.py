"""Properties files are read as Apache commons-configuration 1.x and ``java.util`` read them."""

import pytest

from landfall_migrate.properties import (
    PropertyLine,
    UnreadableError,
    with_includes,
    without_includes,
)
from landfall_migrate.settings import ProgramSettings, Variables, looks_secret, resolved


def read(text: str, **files: str) -> list[tuple[str, tuple[str, ...]]]:
    contents = {"a.properties": text, **{f"{n}.properties": t for n, t in files.items()}}
    return [(line.key, line.values) for line in with_includes("a.properties", contents.get)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", ("a", ("b",))),
        ("  a : b  ", ("a", ("b",))),
        ("a b c", ("a", ("b c",))),
        ("a\t=\tb", ("a", ("b",))),
        ("a", ("a", ("",))),
        ("a=", ("a", ("",))),
        (r"a\=b = c", ("a=b", ("c",))),
        (r"a\ b = c", ("a b", ("c",))),
        ("a = b \\\n   c", ("a", ("b c",))),
        ("a = b\\\n# comment\n  c", ("a", ("bc",))),
        (r"a = b\\", ("a", ("b\\",))),
        (r"a = \u00e9\t\\x\n", ("a", ("é\t\\x\n",))),
        ("a = b, c ,d", ("a", ("b", "c", "d"))),
        (r"a = b\,c", ("a", ("b,c",))),
        (r"a = b\,c,d", ("a", ("b,c", "d"))),
        ("a = ,", ("a", (",",))),
        (r"a = \n", ("a", ("\n",))),
        ("a==b", ("a", ("=b",))),
    ],
)
def test_a_line_of_commons_configuration(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert read(text) == [expected]


def test_comments_and_empty_lines_are_none() -> None:
    assert read("# a=1\n\n  ! b=2\n  \nc=3\r\nd=4\re=5") == [
        ("c", ("3",)),
        ("d", ("4",)),
        ("e", ("5",)),
    ]


def test_a_file_is_included_where_it_is_named() -> None:
    found = read("a=1\ninclude = b.properties\nINCLUDE: c.properties\nd=1", b="b=1", c="c=1")

    assert [key for key, _ in found] == ["a", "b", "c", "d"]


def test_an_included_file_is_beside_the_one_that_includes_it() -> None:
    files = {"conf/a": "include=sub/b", "conf/sub/b": "include=c\nb=1", "conf/sub/c": "c=1"}

    assert [line.key for line in with_includes("conf/a", files.get)] == ["c", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\ninclude=no.properties", "a.properties:2: there is no file no.properties"),
        ("include=a.properties", "a.properties:1: a.properties includes itself"),
        ("\na=\\u12g4", "a.properties:2: \\u is not followed by four hexadecimal digits"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        read(text)

    assert str(refused.value) == message


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(UnreadableError, match=r"^x.properties: there is no such file$"):
        with_includes("x.properties", {}.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b,c", ("a", "b,c")),
        (r"a=b\,c", ("a", "b,c")),
        ("a=b  ", ("a", "b  ")),
        ("a = b \\\n  c", ("a", "b c")),
        ("a=b\\\n#c", ("a", "b#c")),
        ("include=b", ("include", "b")),
    ],
)
def test_a_line_of_java_util(text: str, expected: tuple[str, str]) -> None:
    assert without_includes("a", text) == (PropertyLine(expected[0], (expected[1],), "a:1"),)


def settings(text: str, *, last_wins: bool = False) -> ProgramSettings:
    lines = with_includes("a", {"a": text}.get)
    variables = Variables({"HOST": "h"}, {"x": "y"}, looks_secret)
    return ProgramSettings(resolved(lines, variables, last_wins=last_wins), {"d": "7"})


def test_a_key_that_repeats_makes_a_list_of_which_the_first_counts() -> None:
    found = settings("a=1\na=2,3")

    assert found.text("a") == "1"
    assert found.items("a") == ("1", "2", "3")
    assert settings("a=1\na=2", last_wins=True).text("a") == "2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=${b}/c\nb=x", "x/c"),
        ("a=${b}\nb=${c}\nc=1", "1"),
        ("a=${env:HOST}", "h"),
        ("a=${sys:x}", "y"),
        ("a=$${b}", "${b}"),
    ],
)
def test_variables_are_replaced(text: str, expected: str) -> None:
    assert settings(text).text("a") == expected


@pytest.mark.parametrize("text", ["a=${no}", "a=${a}", "a=${b}\nb=${a}", "a=${env:NO}"])
def test_a_variable_that_nothing_gives_is_named(text: str) -> None:
    found = settings(text)

    assert found.given["a"].unresolved
    assert found.text("a") == ""


def test_a_variable_of_a_secret_is_a_secret() -> None:
    found = settings("a=x${b}\nb=${the.password}\nthe.password=hush")

    assert found.given["a"].is_secret
    assert found.given["b"].is_secret
    assert found.text("a") == ""


def test_a_default_counts_where_a_key_is_not_given_not_where_it_is_empty() -> None:
    assert settings("a=1").text("d") == "7"
    assert settings("d=").text("d") == ""
