"""The example for Argo of workers who take files, on a real driver and a real S3 server."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.files.feed_scene import FeedScene
from tests.support.files.takers import done_numbers
from tests.support.landing.processes import TOKEN, Processes, free_port
from tests.support.pages.external_files import (
    EXAMPLE,
    argo_documents,
    feed_of_the_example,
    put,
    reasons,
)
from tests.support.publishers.argo import Workflow

pytestmark = pytest.mark.xdist_group("drivers")


def test_argo_workflows_take_files_and_say_what_became_of_them(
    files: FeedScene, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", files.bucket.server.endpoint)
    names = put(files, 3)
    port, token = free_port(), tmp_path / "token"
    token.write_text(TOKEN)
    control = ("--control-port", str(port), "--token-file", str(token), "--http-port", "0")
    driver = processes.run(files.document(**feed_of_the_example()), *control)
    driver.wait_for(lambda: files.found() == 4, "4 files are found")
    lost = {names[2]}

    def is_lost(template: str, parameters: Mapping[str, str]) -> bool:
        return template == "process" and json.loads(parameters["file"])["name"] in lost

    workflow = Workflow(
        argo_documents()["WorkflowTemplate"]["spec"],
        mounted={"landfall-leases": EXAMPLE},
        secrets={"hits-control/token": TOKEN},
        parameters={"driver": f"http://127.0.0.1:{port}"},
        lost=is_lost,
    )
    again = workflow.script("take", {})

    workflow.run()

    assert [json.loads(pod.out) for pod in workflow.pods["take"]] == [json.loads(again.out)] * 2
    assert [file["name"] for file in json.loads(again.out)] == names
    processed = [(pod.code, pod.out) for pod in workflow.pods["process"]]
    assert processed == [(0, "1\n"), (0, "2\n"), (1, "")]
    assert done_numbers(files) == Counter([0, 1])
    assert reasons(files) == {
        2: (1, "its pod was lost"),
        3: (1, "BadGzipFile: Not a gzipped file (b'no')"),
    }
    (given_back,) = workflow.pods["give-back"]
    assert given_back.code == 0, given_back.err
    assert files.faults() == []

    next_one = replace(workflow, tags={}, pods={})
    next_one.run()

    assert {name: [pod.out for pod in pods] for name, pods in next_one.pods.items()} == {
        "take": ["[]\n"],
        "give-back": [""],
    }

    files.put("new.gz", gzip.compress(b""))
    driver.wait_for(lambda: files.found() == 5, "the new file is found")
    fails_what_is_left_without_an_answer(files, replace(workflow, tags={}, pods={}))


def fails_what_is_left_without_an_answer(files: FeedScene, workflow: Workflow) -> None:
    workflow.script("take", {})

    workflow.script("give-back", {})

    assert reasons(files)[4] == (1, "its pod was lost")
