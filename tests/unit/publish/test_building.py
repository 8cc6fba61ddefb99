"""Publishers by name: what is not installed, unknown or wrong is the spec's fault."""

from importlib import import_module

import pytest

from landfall.api.spec.publish import PUBLISHERS as NAMES
from landfall.errors import Reason, Stalled
from landfall.publish import building
from landfall.publish.building import BUILT_IN, check_publishers
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import group
from tests.support.publishers.played_publisher import PLAYED


def refusal(kind: str, **options: object) -> str:
    made = group(publish=[{"name": "a", "type": kind, "options": options}])
    with pytest.raises(Stalled) as raised:
        check_publishers(made, MemoryStore())
    assert raised.value.reason is Reason.SPEC_INVALID
    return str(raised.value)


def test_every_type_of_the_spec_has_a_class() -> None:
    assert tuple(BUILT_IN) == NAMES
    for built_in in BUILT_IN.values():
        module, _, name = built_in.path.partition(":")
        assert hasattr(import_module(module), name)
        assert built_in.has_tables or not built_in.of_files


@pytest.mark.parametrize("kind", [name for name in BUILT_IN if BUILT_IN[name].package])
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "find_spec", lambda _: None)

    said = refusal(kind)

    assert said.startswith(f"spec.publish[0].type: {kind} needs packages that are not installed")
    assert f"install the extra {kind.lower()} of landfall-kafka" in said


def test_a_plug_in_is_imported_and_its_options_are_checked() -> None:
    assert refusal(PLAYED, other="x") == "spec.publish[0].options.path: needed, and nothing else"
    assert "cannot import publisher" in refusal("tests.nothing:There")


ELSEWHERE = ["abfss://logs@account.dfs.core.windows.net/parsed", "gs://logs/parsed", "mine://logs"]
REFUSED = [
    (name, url)
    for name, built_in in BUILT_IN.items()
    for url in ELSEWHERE
    if built_in.of_files and url.partition("://")[0] not in built_in.schemes
]


@pytest.mark.parametrize(("kind", "url"), REFUSED)
def test_a_table_of_files_is_refused_where_nobody_can_look_into_them(kind: str, url: str) -> None:
    output = {"url": url, "format": "Parquet"} | ({"store": "a:B"} if "mine" in url else {})
    made = group(output=output, publish=[{"name": "a", "type": kind, "options": {}}])

    with pytest.raises(Stalled) as raised:
        check_publishers(made, MemoryStore())

    of = "s3://, file://, abfss://, gs:// and hdfs://" if kind == "Delta" else "s3:// and file://"
    assert str(raised.value) == (
        f"spec.publish[0].type: {kind} makes tables of files in {of}, not in {url}"
    )


CATALOG = {"type": "sql", "uri": "sqlite://"}


def entry(name: str, kind: str, table: str, *topics: str) -> dict[str, object]:
    """A publisher of tables; without a name of a table, with the default one."""
    options: dict[str, object] = {"table": f"s3://lake/{table}"}
    if kind == "Iceberg":
        options = {"catalog": CATALOG} | ({"table": table} if table else {})
    return {"name": name, "type": kind, "topics": topics, "options": options}


@pytest.mark.parametrize(
    ("tables", "topics", "others", "is_refused"),
    [
        ("lake.events", ["clicks"], ["orders"], True),
        ("lake.{topic}", ["clicks"], ["orders"], False),
        ("lake.{topic}", ["clicks"], ["cl.*"], True),
        ("lake.{topic}", ["clicks"], [], True),
        ("lake.{topic}", ["a.*"], ["a.*"], True),
        ("lake.{topic}", ["a.*"], ["b.*"], False),
        ("lake.{topic} lake.clicks", ["clicks"], ["orders"], True),
        ("lake.{topic} lake.clicks", ["orders"], ["clicks"], False),
        ("lake.{topic} lake.clicks", ["a-.*"], ["a_.*"], False),
    ],
)
@pytest.mark.parametrize("kind", ["Iceberg", "Delta"])
def test_a_table_of_two_publishers_is_refused(
    kind: str, tables: str, topics: list[str], others: list[str], is_refused: bool
) -> None:
    first, _, last = tables.partition(" ")
    entries = [entry("one", kind, first, *topics), entry("two", kind, last or first, *others)]
    made = group(output={"url": "s3://logs/parsed", "format": "Parquet"}, publish=entries)

    if is_refused:
        with pytest.raises(Stalled, match=r"publish\[0\].*: publisher two fills the same table"):
            check_publishers(made, MemoryStore())
    else:
        check_publishers(made, MemoryStore())


@pytest.mark.parametrize(
    ("kind", "table", "same", "topics"),
    [
        ("Iceberg", "lake.{topic}", "", ["a", "a"]),
        ("Iceberg", "", "lake.{topic}", ["a", "a"]),
        ("Iceberg", "lake.{topic}", "lake.{topic}", ["a-b", "a_b"]),
        ("Delta", "{topic}", "{topic}/", ["a", "a"]),
    ],
)
def test_one_table_by_two_names_is_refused(
    kind: str, table: str, same: str, topics: list[str]
) -> None:
    entries = [entry("one", kind, table, topics[0]), entry("two", kind, same, topics[1])]
    made = group(output={"url": "s3://logs/parsed", "format": "Parquet"}, publish=entries)

    with pytest.raises(Stalled, match=r"publish\[0\].*: publisher two fills the same table"):
        check_publishers(made, MemoryStore())
