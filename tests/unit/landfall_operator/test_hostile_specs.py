"""Specs of tenants that would keep the shared operator busy: each costs it milliseconds."""

import importlib
import pickle
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import landfall.api
import landfall_operator
from landfall.api.route_pattern import _JAVA, _JAVA_WORD, checked_pattern
from landfall.api.spec import ConsumerGroup
from landfall.api.spec.shared import distinct
from landfall_operator.api import crd
from landfall_operator.api.output_roots import may_collide
from landfall_operator.api.validation import parsed
from landfall_operator.core.cache import MAX_SPEC_BYTES, ObjectCache
from tests.support.cpu_budget import cpu_budget
from tests.support.examples import share

BUDGET = 0.5
"""Seconds of processor time. All that is bounded here takes some hundredths."""
EVIL = (
    "(a+)+",
    "(a|a)*b",
    "(a|aa)+$",
    "([a-z]+)*-",
    "(.*a){20}",
    "(?:a?){40}a{40}",
    "(a*)*(b*)*c",
    "(?i)(A+)+",
    "(?=(a+)+b)a",
)


def resource(
    name: str, url: str, pattern: str, route: str, topic_path: str = "", **spec: object
) -> dict[str, object]:
    kafka = {"bootstrapServers": "k:9092", "topicPattern": pattern}
    return {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {
            "name": name,
            "namespace": "tenant-b",
            "uid": name,
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": {
            "source": {"kafka": kafka},
            "route": {"pattern": route, **({"topicPath": topic_path} if topic_path else {})},
            "output": {"url": url, "format": "Json"},
            **spec,
        },
    }


def group(name: str, url: str, pattern: str, route: str, **spec: Any) -> ConsumerGroup:
    made, error = parsed(resource(name, url, pattern, route, **spec))
    assert made, error
    return made


patterns = st.sampled_from(EVIL) | st.recursive(
    st.sampled_from(["a", "[a-]", ".", "a?", "(a|a)"]),
    lambda inner: st.one_of(
        st.builds("({})+".format, inner),
        st.builds("({})*".format, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
    ),
    max_leaves=8,
)


@given(patterns, st.integers(1, 400))
@settings(max_examples=share(60), deadline=None)
def test_no_topic_pattern_of_a_tenant_keeps_the_operator_busy(pattern: str, letters: int) -> None:
    cache = ObjectCache()
    inside = f"s3://b/x/{'a' * letters}-"
    cache.put("ConsumerGroup", resource("outer", "s3://b/x", pattern, "p/q"))
    cache.put("ConsumerGroup", resource("inner", inside, "clicks", "q"))

    with cpu_budget(BUDGET):
        refusals = [cache.refusal(("tenant-b", name)) for name in ("inner", "outer")]

    assert [refusal.other for refusal in refusals if refusal] == ["tenant-b/inner"]


def test_no_folder_of_a_route_keeps_the_operator_busy() -> None:
    fields = "".join("{field:f}a" for _ in range(90))
    outer = group("outer", "s3://b/x", "y", "p/q", topic_path=f"db={fields}z/{{topic}}")
    inner = group("inner", f"s3://b/x/db={'a' * 1900}", "y", "q")

    with cpu_budget(BUDGET):
        assert not may_collide(outer, inner)


def test_groups_with_too_many_names_to_compare_collide() -> None:
    def topics(last: str) -> list[object]:
        return [
            {"pattern": "t", "route": {"pattern": "/".join(["a"] * 400) + f"/{last}{number}"}}
            for number in range(100)
        ]

    outer = group("outer", "s3://b/x", ".*", "p", topics=topics("x"))
    inner = group("inner", "s3://b/x/y", ".*", "p", topics=topics("y"))

    with cpu_budget(BUDGET):
        assert may_collide(outer, inner)


@pytest.mark.parametrize("letters", ["y", "M", "d", "D", "yM", "MMMy", "yyMM", "u"])
@pytest.mark.parametrize("end", ["=", "", "x", "/", "'"])
def test_no_route_keeps_the_operator_busy(letters: str, end: str) -> None:
    text = (letters * 1024)[:1020] + end

    with cpu_budget(BUDGET), suppress(ValueError):
        checked_pattern(text)


def test_words_of_java_are_found_as_by_trying_all_of_them() -> None:
    former = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(_JAVA)})+(?![A-Za-z=])")
    texts = (
        "".join(letters) for length in range(1, 8) for letters in product("yMd=", repeat=length)
    )

    assert [text for text in texts if _JAVA_WORD.findall(text) != former.findall(text)] == []
    for word in "yyyyMMdd", "uuuuuu", "uuuu", "DDDDD", "HHmmss", "hhh", "YYMMM", "D", "M":
        assert _JAVA_WORD.findall(word) == former.findall(word)


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("a" * 4097, "at most 4096 characters, got 4097"),
        ("".join(f"[a-{chr(0x10FF00 + n)}]" for n in range(21)), "at most 20 ranges"),
        (r"[a-\U0010ffff]" * 21, "at most 20 ranges"),
        ("[a-\\\u0100]" * 21, "at most 20 ranges"),
    ],
)
def test_a_pattern_that_takes_long_to_compile_is_refused(pattern: str, error: str) -> None:
    spec, message = parsed(resource("g", "s3://b/x", pattern, "q"))

    assert spec is None
    assert error in message


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)" + "".join(f"[a-{chr(0x10FF00 + n)}]" for n in range(20)),
        "(?i)" + "".join(f"[\x01-\xff{chr(33 + n % 50)}]" for n in range(600)),
        "".join(f"[{chr(0x400 + n)}]" for n in range(1300)),
        "(a?){1000}" * 400,
        "|".join(f"a{'b' * 100}{n}" for n in range(38)),
    ],
)
def test_a_pattern_that_is_accepted_is_compiled_in_no_time(pattern: str) -> None:
    re.purge()

    with cpu_budget(BUDGET):
        spec, message = parsed(resource("g", "s3://b/x", pattern, "q"))

    assert spec, message


def own_patterns() -> Iterator[str]:
    """The regular expressions of the API and the operator: constants and forms in the CRD."""
    for package in landfall.api, landfall_operator:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    yield value.pattern
    yield from (found for found in _forms(crd.crd()) if "(?" not in found or "(?:" in found)


def _forms(schema: object) -> Iterator[str]:
    match schema:
        case dict():
            if isinstance(schema.get("pattern"), str):
                yield schema["pattern"]
            yield from re.findall(r"\.matches\(r'(.*?)'\)", str(schema.get("rule", "")))
            for value in schema.values():
                yield from _forms(value)
        case list():
            for value in schema:
                yield from _forms(value)


def test_no_form_of_a_field_takes_long_for_any_text() -> None:
    forms = sorted(set(own_patterns()))
    letters = ["a", "M", "y", "0", "1", ".", "-", "/", "_", "=", " ", ":", "{", "%", "'", ",", "s"]
    pumps = [*letters, *("".join(pair) for pair in product(letters, repeat=2))]

    assert len(forms) > 30
    for form in forms:
        compiled = re.compile(form)
        for pump in pumps:
            with cpu_budget(BUDGET):
                compiled.search((pump * 1000)[:1000] + "\0")
                compiled.fullmatch("a://" + (pump * 1000)[:1000] + "\0")


def entries(size: int) -> dict[str, dict[str, Any]]:
    """Specs whose JSON has about ``size`` bytes: in each, one list has very many entries."""
    column = {"type": "Int32"}
    return {
        "names": {"decode": {"columns": [{"name": f"c{n}", **column} for n in range(size // 32)]}},
        "same": {"decode": {"columns": [{"name": "c", **column} for _ in range(size // 28)]}},
        "types": {
            "decode": {"columns": [{"name": f"c{n}", "type": "Int3"} for n in range(size // 31)]}
        },
        "steps": {"transforms": [{"use": f"Sq{n}"} for n in range(size // 17)]},
        "publishers": {
            "publish": [{"name": f"p{n}", "kind": "Nope"} for n in range(size // 33)],
        },
        "policies": {
            "uploadPolicy": {
                "overrides": [{"pattern": f"a{n}", "maxAge": "1m"} for n in range(size // 38)]
            }
        },
        "variables": {
            "driver": {"env": [{"name": f"E{n}", "value": "x"} for n in range(size // 32)]},
        },
    }  # fmt: skip


@pytest.mark.parametrize("kind", entries(0))
@pytest.mark.parametrize("size", [MAX_SPEC_BYTES * 9 // 10, 1_300_000])
def test_no_long_list_keeps_the_operator_busy(kind: str, size: int) -> None:
    cache, spec = ObjectCache(), entries(size)[kind]

    with cpu_budget(2.0):  # it was up to eight seconds
        cache.put("ConsumerGroup", resource("long", "s3://b/x", "y", "q", **spec))

    (found,) = cache.groups.values()
    assert found.spec_error or kind in {"names", "variables"}
    assert len(found.spec_error) < 50_000


def test_names_are_compared_once_each() -> None:
    names = tuple(f"c{number}" for number in range(20_000))

    with cpu_budget(BUDGET):
        assert distinct(names) == names
        with pytest.raises(ValueError, match="named twice: c7, c9"):
            distinct((*names, "c9", "c7"))


def test_a_spec_that_is_too_long_is_named_and_not_kept() -> None:
    cache = ObjectCache()
    for number in range(10):
        spec = entries(1_300_000)["variables"]
        cache.put("ConsumerGroup", resource(f"g{number}", "s3://b/x", "y", "q", **spec))
    del spec

    texts = {found.spec_error for found in cache.groups.values()}
    assert len(cache.groups) == 10
    assert "" not in texts
    assert {text.split(" bytes")[1] for text in texts} == {" of JSON, more than 262,144"}
    assert len(pickle.dumps(cache.groups)) < 50_000
