"""A spec that lies in a bucket names no code: neither a driver nor a reader imports what it names.

Whoever may write there can write a spec and an OPEN that names it. The plug-in here says that it
was imported; what it would be called with is an option of the spec, too.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import landfall.pipeline
import landfall.schemas
from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli import main
from landfall.driver.core.stored_specs import store_spec, stored_spec, with_stored_formats
from landfall.driver.http.status import DriverProgress
from landfall.driver.landing.closed_ranges import ReadingBack
from landfall.errors import Reason, Stalled
from landfall.registry import FILE_OPTIONS, FORMATS, Allowed, plug_ins
from landfall.store.memory import MemoryStore
from pyspark_landfall.source import ReadOptions
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)
from tests.support.kubernetes.groups import document
from tests.support.ledger.compaction_scene import SPEC, CompactionScene
from tests.support.ledger.readable import CLICKS, Readable
from tests.support.ledger.sample_ledger import GROUP
from tests.support.stores.lost_uploads import commit_and_lose
from tests.unit.cli.objects.test_scan import Scene
from tests.unit.driver.test_lost_uploads import next_driver

PLUGIN = """
from landfall.formats.text import TextFormat

class Format(TextFormat):
    pass

def step(batch):
    return batch
"""
FORMAT, STEP = "forged_plugin:Format", "forged_plugin:step"
GADGET = {
    "use": "py4j.java_gateway:launch_gateway",
    "options": {"java_path": "/bin/bash", "jarpath": "/etc/passwd", "classpath": "; id > x; #"},
}


@pytest.fixture(autouse=True)
def _plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "forged_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop("forged_plugin", None)


def is_imported() -> bool:
    return "forged_plugin" in sys.modules


# -------------------------------------------------------------------------------- what is looked at


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"decode": {"format": FORMAT}}, "decode.format: the decoder 'forged_plugin:Format'"),
        (
            {"decode": {"format": "Json", "key": {"format": FORMAT}}},
            "decode.key.format: the decoder 'forged_plugin:Format'",
        ),
        ({"transforms": [{"use": STEP}]}, "transforms[0].use: the transform 'forged_plugin:step'"),
        ({"transforms": [GADGET]}, "the transform 'py4j.java_gateway:launch_gateway'"),
        (
            {"output": {"url": "s3://b/x", "format": FORMAT}},
            "output.format: the format 'forged_plugin:Format'",
        ),
        (
            {"topics": [{"pattern": "a", "transforms": [{"use": STEP}]}]},
            "transforms[0].use: the transform 'forged_plugin:step'",
        ),
        (
            {"topics": [{"pattern": "never", "output": {"format": FORMAT}}]},
            "output.format: the format 'forged_plugin:Format'",
        ),
    ],
)
def test_a_stored_spec_names_only_what_the_present_one_names(
    spec: dict[str, Any], named: str
) -> None:
    store, then, now = MemoryStore(), group(**spec), group()
    name = store_spec(store, then, LANE)

    with pytest.raises(Stalled) as caught:
        stored_spec(store, now, LANE, name)

    assert caught.value.reason is Reason.SPEC_INVALID
    assert str(caught.value).startswith(f"_landfall/fake/{LANE}-specs/{name}.json: ")
    assert named in str(caught.value)
    assert "name it there again" in str(caught.value)
    assert stored_spec(store, then, LANE, name).spec == then.spec
    assert not is_imported()


def test_only_the_topics_and_the_stages_that_are_used_count() -> None:
    store, now = MemoryStore(), group()
    entries = [
        {"pattern": "a", "transforms": [{"use": STEP}]},
        {"pattern": "b", "output": {"format": FORMAT}},
    ]
    name = store_spec(store, group(topics=entries), LANE)

    stored_spec(store, now, LANE, name, {"c"})
    with_stored_formats(store, now, LANE, name, {"a", "c"})
    with pytest.raises(Stalled, match="forged_plugin:step"):
        stored_spec(store, now, LANE, name, {"a", "c"})
    with pytest.raises(Stalled, match="forged_plugin:Format"):
        with_stored_formats(store, now, LANE, name, {"b"})


def registry_of(url: str, secret: str | None) -> dict[str, Any]:
    login = {"secretRef": {"name": secret}} if secret else {}
    return {"decode": {"format": "Avro", "registry": {"urls": [url], **login}}}


def test_a_stored_spec_sends_no_secret_elsewhere() -> None:
    store = MemoryStore()
    now = group(**registry_of("https://registry", "login"))

    for url, secret in (("https://evil", "login"), ("https://registry", "kafka-auth")):
        name = store_spec(store, group(**registry_of(url, secret)), LANE)
        with pytest.raises(Stalled, match=f"decode.registry: logs in to {url} by .*{secret}"):
            stored_spec(store, now, LANE, name)
    for url, secret in (("https://registry", "login"), ("https://another", None)):
        then = group(**registry_of(url, secret))
        found = stored_spec(store, now, LANE, store_spec(store, then, LANE))
        assert found.spec.decode == then.spec.decode


def lookup(file: str) -> dict[str, Any]:
    options = {"file": file, "on": "a"}
    return {"transforms": [{"use": "Lookup", "options": options}]}


@pytest.mark.parametrize(
    "file",
    [
        "/etc/landfall/secrets/kafka-auth/properties",
        "//etc/landfall/x/../secrets/kafka-auth/properties",
        "/proc/self/environ",
        "../proc/self/environ",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "/dev/fd/3",
    ],
)
def test_a_stored_spec_reads_no_secret_as_data(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANDFALL_SECRETS", raising=False)
    store, then = MemoryStore(), group(**lookup(file))
    name = store_spec(store, then, LANE)

    with pytest.raises(Stalled, match=r"an option names .* among secrets or files of the system"):
        stored_spec(store, group(), LANE, name)
    assert stored_spec(store, then, LANE, name).spec == then.spec


def schema_file(file: str) -> dict[str, Any]:
    return {"decode": {"format": "Avro", "options": {"schemaFile": file}}}


def key_file(file: str) -> dict[str, Any]:
    key = {"format": "Protobuf", "options": {"file": file, "message": "E"}}
    return {"decode": {"format": "Json", "key": key}}


@pytest.mark.parametrize("named", [lookup, schema_file, key_file])
@pytest.mark.parametrize(
    "file", ["/opt/landfall/sbom.json", "/data/../x/a.csv", "a.csv", "http://127.0.0.1/a", "/a"]
)
def test_a_stored_spec_reads_no_other_file_of_the_pod(
    file: str, named: Callable[[str], dict[str, Any]]
) -> None:
    store, now = MemoryStore(), group(**lookup("/data/countries-2.csv"))
    name = store_spec(store, group(**named(file)), LANE)

    with pytest.raises(Stalled, match=r"in a folder that the present spec does not use"):
        stored_spec(store, now, LANE, name)
    with pytest.raises(Stalled, match=r"in a folder that the present spec does not use"):
        stored_spec(store, group(**lookup("/b")), LANE, name)


@pytest.mark.parametrize("named", [lookup, schema_file, key_file])
def test_a_stored_spec_reads_a_former_file_of_a_folder_that_the_present_one_names(
    named: Callable[[str], dict[str, Any]],
) -> None:
    store, then = MemoryStore(), group(**named("/data/countries-1.csv"))
    now = group(**lookup("/data/countries-2.csv"))

    assert stored_spec(store, now, LANE, store_spec(store, then, LANE)).spec.decode
    for text in ("/data/countries-2.csv", "//data/./x.csv"):
        name = store_spec(store, group(**named(text)), LANE)
        assert stored_spec(store, now, LANE, name).spec.decode


def test_every_option_that_names_a_file_is_known() -> None:
    """Each that a built-in decoder or step reads from: no option has 'file' in another name."""
    packages = [landfall.pipeline, landfall.schemas]
    modules = [
        importlib.import_module(module.name)
        for package in packages
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    structs = {
        of
        for module in modules
        for of in vars(module).values()
        if isinstance(of, type) and issubclass(of, msgspec.Struct) and "Options" in of.__name__
    }
    names = {field.encode_name for of in structs for field in msgspec.structs.fields(of)}
    assert {name for name in names if "file" in name.lower() or "path" in name.lower()} == {
        *FILE_OPTIONS
    }


def test_what_is_built_in_is_never_asked_about() -> None:
    allowed = Allowed(frozenset(), "file", "remedy")

    for name in FORMATS:
        allowed.check("output.format", "format", name, FORMATS)
    assert plug_ins(group().spec) == frozenset()


# ------------------------------------------------------------------------------------------ drivers

WITH_STEP = {"transforms": [{"use": STEP}]}
NAMED_AGAIN = {"topics": [{"pattern": "no-such-topic", **WITH_STEP}]}


def test_lost_objects_wait_until_the_present_spec_names_the_plug_in_again() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), **WITH_STEP)
    log.write("b", 5)  # landing continues
    one = driver(
        group(generation=2), store, log, FakeRunner(store), writer="w2", until_caught_up=False
    )
    began, failures = one.deps.clock(), set[str]()

    def stop_later(progress: DriverProgress) -> None:
        if one.deps.counters.last_failure is not None:
            failures.add(one.deps.counters.last_failure.message)
        if progress.time - began > timedelta(minutes=5):
            one.stop("done")

    one.report = stop_later
    one.run()

    (failure,) = failures
    assert "the transform 'forged_plugin:step' is not built in" in failure
    assert "an entry of spec.topics with a pattern that no topic has" in failure
    assert {topic for topic, _, _ in landed_offsets(store)} == {"b"}
    assert not is_imported()

    again = next_driver(store, log, FakeRunner(store), generation=3, **NAMED_AGAIN)

    assert again.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def compaction(**spec: Any) -> CompactionScene:
    """Objects of an hour that is complete; an OPEN names a stored spec with a plug-in."""
    scene = CompactionScene({**SPEC, "route": {"pattern": "dt={date}/hr={hour}"}})
    forged = parse_group(document(GROUP, **{**scene.spec, **spec}))
    scene.sample.open(
        scene.sample.state.generation + 1, store_spec(scene.sample.store, forged, LANE)
    )
    return scene.land(4, 3, 3).finish(4)


def test_objects_of_a_format_that_nobody_names_are_not_merged() -> None:
    output = {**SPEC["output"], "format": FORMAT}
    scene = compaction(output=output)

    assert scene.observe() is None

    assert "the format 'forged_plugin:Format' is not built in" in str(scene.compacting.status)
    assert not is_imported()


def test_a_transform_that_nobody_names_any_more_keeps_no_object_from_being_merged() -> None:
    scene = compaction(**WITH_STEP)

    assert scene.observe() is not None
    assert not is_imported()


def read_back(of: ConsumerGroup, scene: CompactionScene) -> dict[str, Stalled]:
    planner: Any = scene.compacting
    reading = ReadingBack(of, planner._deps, lambda: None)
    found: Future[Any] = reading.begin(-1)
    return dict(found.result())


def test_objects_of_a_format_that_nobody_names_are_not_read_back() -> None:
    output = {**SPEC["output"], "format": FORMAT}
    scene = compaction(output=output)

    problems = read_back(scene.group, scene)

    assert [*problems] == ["clicks"]
    assert "the format 'forged_plugin:Format' is not built in" in str(problems["clicks"])
    assert not is_imported()


# ------------------------------------------------------------------------------------------ readers


@pytest.fixture
def landed(tmp_path: Path) -> Readable:
    """Objects whose stored spec names a format of somebody's own."""
    scene = Readable(tmp_path / "root", "Text")
    scene.format = FORMAT
    scene.open(2)
    scene.format = "Text"
    scene.land(CLICKS, ("dt=2026-11-21/hr=04", [{"id": 7}])).settle()
    return scene


def test_a_reader_imports_nothing_that_only_the_bucket_names(landed: Readable) -> None:
    scan = landfall.open(landed.url).scan("clicks")

    assert len(scan.urls()) == scan.rows == 1  # for which nothing is imported
    with pytest.raises(Stalled) as caught:
        scan.to_arrow()

    assert str(caught.value).startswith(f"{landed.url}/_landfall/{GROUP}/{LANE}-specs/")
    assert "the format 'forged_plugin:Format' is not built in" in str(caught.value)
    assert "plugins=[…] of landfall.open, the option plugins of spark.read" in str(caught.value)
    assert not is_imported()


def test_a_reader_may_name_the_format(landed: Readable) -> None:
    scan = landfall.open(landed.url, plugins=[FORMAT]).scan("clicks")

    assert scan.to_arrow()["value"].to_pylist() == [b"7"]
    assert is_imported()


def test_the_option_of_spark_names_formats(landed: Readable) -> None:
    def source(**more: str) -> Any:
        scan = ReadOptions({"path": landed.url, **more}).open().scan("clicks")
        return [*scan.source.batches(landed.store, scan.files())]

    with pytest.raises(Stalled, match="is not built in"):
        source()
    assert not is_imported()
    assert len(source(plugins=f"another:Format, {FORMAT}")) == 1


def test_a_scan_imports_what_the_group_s_file_or_the_command_line_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path / "root", {"format": FORMAT, "codec": "None"})
    sys.modules.pop("forged_plugin")
    place = {"url": f"file://{scene.root}"}
    scene.write(output={**place, "format": "Json"})

    assert scene.scan() == ExitCode.USAGE
    err = " ".join(capsys.readouterr().err.split())
    assert "the format 'forged_plugin:Format' is not built in" in err
    assert "--plugin package.module:Name" in err
    assert not is_imported()

    assert scene.scan("--plugin", FORMAT) in {ExitCode.OK, ExitCode.FAULT}
    assert is_imported()


# --------------------------------------------------------------------------- files of other people


def test_explain_imports_nothing_that_a_file_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = document(GROUP)
    described["spec"] |= {
        "output": {"url": "s3://b/x", "format": FORMAT},
        "transforms": [{"use": STEP}],
    }
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(described))

    assert main(["explain", str(file), "clicks"]) == ExitCode.OK
    assert "forged_plugin:step" in capsys.readouterr().out
    assert not is_imported()
