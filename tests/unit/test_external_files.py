"""The examples of workers who take files: the DAG's tasks ask a driver in this process."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from landfall.driver.http.control import Control, ControlHandler, serve_control
from tests.support.files.lease_scene import LeaseScene
from tests.support.pages.external_files import EXAMPLE, argo_documents
from tests.support.pages.markdown import DOCS, code
from tests.support.publishers.airflow_stand_in import (
    AirflowFailException,
    AirflowSkipException,
    modules,
)
from tests.support.stores.web_server import LOST, web_server

TOKEN = "token-of-the-tests"  # protects nothing


@dataclass(frozen=True)
class Dag:
    """The DAG of the example: its module, and the functions of its tasks."""

    module: Any
    tasks: Mapping[str, Callable[..., Any]]
    scene: LeaseScene

    def take(self, run: str = "run-1") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tasks["take"](run)
        return found

    def process(self, file: dict[str, Any], run: str = "run-1") -> int:
        rows: int = self.tasks["process"](file, run)
        return rows


@pytest.fixture
def dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dag]:
    """The DAG with a driver that has found three files."""
    scene = LeaseScene()
    for name in ("a", "b", "damaged"):
        scene.files.write(name, name.encode())
    (token := tmp_path / "token").write_text(TOKEN)
    tasks: dict[str, Callable[..., Any]] = {}
    with scene.driver(maxAttempts=3, retryInterval="1h") as driver:
        driver.until_found(3)
        handler = ControlHandler(lambda _: None, lambda _: None, lambda: None, driver.ask)
        server = serve_control(Control(token, "127.0.0.1", 0), handler)
        url = f"http://127.0.0.1:{server.server_port}"
        for name, module in modules(tasks, url, TOKEN).items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.syspath_prepend(str(EXAMPLE))
        module = importlib.import_module("airflow_files")
        monkeypatch.setattr(module, "count_rows", count_rows)
        yield Dag(module, tasks, scene)
        server.shutdown()
    for name in ("airflow_files", "leases"):
        del sys.modules[name]


def count_rows(file: dict[str, Any]) -> int:
    if file["name"] == "damaged":
        raise ValueError("not gzip")
    return len(file["name"])


def test_files_are_done_or_failed_one_by_one(dag: Dag) -> None:
    files = dag.take()

    assert [file["name"] for file in files] == ["a", "b", "damaged"]
    assert [dag.process(file) for file in files[:2]] == [1, 1]
    with pytest.raises(AirflowFailException, match="damaged: ValueError: not gzip"):
        dag.process(files[2])
    dag.tasks["give_back"](files)
    leasing = dag.scene.leasing
    assert (leasing.done, leasing.open) == (2, {})
    assert [part.reason for part in dag.scene.feed.parked.values()] == ["ValueError: not gzip"]
    with pytest.raises(AirflowSkipException, match="there is nothing to take"):
        dag.take("run-2")


def test_a_task_that_is_tried_again_has_the_effect_of_one(dag: Dag) -> None:
    files = dag.take()
    assert dag.take() == files
    dag.process(files[0])
    assert dag.take() == files[1:]

    assert dag.process(files[0]) == 1

    assert dag.scene.leasing.done == 1


def test_what_is_left_of_a_run_has_failed_and_its_tasks_are_too_late(dag: Dag) -> None:
    files = dag.take()

    dag.tasks["give_back"](files)

    reasons = [part.reason for part in dag.scene.feed.parked.values()]
    assert reasons == ["its task was killed"] * 3
    for late in (lambda: dag.process(files[0]), dag.take):
        with pytest.raises(AirflowFailException, match="is over"):
            late()
    assert dag.scene.leasing.done == 0


def test_what_is_no_answer_of_the_driver_is_no_refusal(
    dag: Dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with web_server() as server:
        for status in (LOST, 502, 202, 503):
            server.next(status, "not now")
        server.next(200, {"lease": 7})
        server.next(409, "over")
        driver = dag.module.Driver(server.url, TOKEN, who="kim")

        assert driver.ask("files-take", topic="hits", id="t1") == {"lease": 7}

        assert [each.json["id"] for each in server.asked] == ["t1"] * 5
        with pytest.raises(dag.module.Refused, match="files-done was answered with 409: over"):
            driver.ask("files-done", lease=7)


# --------------------------------------------------------------------------------------------- Argo

ARGO = argo_documents()
SPEC = ARGO["WorkflowTemplate"]["spec"]
TEMPLATES = {template["name"]: template for template in SPEC["templates"]}
SCRIPTS = {name: each["script"] for name, each in TEMPLATES.items() if "script" in each}


def names(items: list[dict[str, Any]]) -> set[str]:
    return {item["name"] for item in items}


def test_what_the_manifests_for_argo_name_is_there() -> None:
    steps = [step for group in TEMPLATES["main"]["steps"] for step in group]
    cron = ARGO["CronWorkflow"]["spec"]["workflowSpec"]["workflowTemplateRef"]["name"]

    assert cron == ARGO["WorkflowTemplate"]["metadata"]["name"]
    assert {SPEC["entrypoint"], SPEC["onExit"]} | {step["template"] for step in steps} == {
        *TEMPLATES
    }
    for step in steps:
        needed = names(TEMPLATES[step["template"]].get("inputs", {}).get("parameters", []))
        assert names(step.get("arguments", {}).get("parameters", [])) == needed
    for script in SCRIPTS.values():
        assert names(script["volumeMounts"]) == names(SPEC["volumes"])
    label = ARGO["NetworkPolicy"]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert label == SPEC["podMetadata"]["labels"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_tag_of_a_script_is_a_parameter(name: str) -> None:
    template = TEMPLATES[name]
    workflow = {f"workflow.parameters.{each}" for each in names(SPEC["arguments"]["parameters"])}
    own = names(template.get("inputs", {}).get("parameters", []))

    tags = set(re.findall("{{(.*?)}}", yaml.safe_dump(template)))

    known = workflow | {f"inputs.parameters.{each}" for each in own}
    assert tags <= known | {"workflow.uid", "workflow.name"}


# -------------------------------------------------------------------------------------------- pages


def test_what_the_page_shows_of_the_examples_is_in_them() -> None:
    shown = [block for block in code(DOCS / "guides/external-files.md") if block.title]

    assert {block.title for block in shown} == {"hits.yaml", "airflow_files.py", "argo_files.yml"}
    for block in shown:
        text = (EXAMPLE / block.title).read_text()
        for part in block.text.split("…\n"):
            assert any(indent(part, " " * spaces) in text for spaces in (0, 4)), part
