"""What plays the API server while the image's archive of classes is made."""

import json
import runpy
import ssl
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPT = SimpleNamespace(**runpy.run_path("docker/archive_classes.py"))
POD = {
    "metadata": {"name": "exec-1", "labels": {"spark-role": "executor"}},
    "spec": {
        "containers": [
            {
                "env": [
                    {"name": "SPARK_DRIVER_URL", "value": "spark://driver"},
                    {"name": "EMPTY"},
                    {
                        "name": "SPARK_EXECUTOR_POD_IP",
                        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                    },
                ]
            }
        ]
    },
}
ENTRYPOINT = """#!/bin/sh
echo "$1 $SPARK_DRIVER_URL $SPARK_EXECUTOR_POD_IP $OWN" > "$FILE"
"""


@pytest.fixture
def pods(tmp_path: Path) -> Any:
    """None yet; their executors write down how they were started."""
    entrypoint = tmp_path / "entrypoint"
    entrypoint.write_text(ENTRYPOINT)
    entrypoint.chmod(0o755)
    return SCRIPT.Pods({"OWN": "flags", "FILE": f"{tmp_path}/started"}, str(entrypoint))


@pytest.fixture
def api(pods: Any, tmp_path: Path) -> Iterator[HTTPSConnection]:
    """A connection to the server."""
    key = SCRIPT._key(tmp_path)
    server = SCRIPT.api_server(pods, key)
    trust = ssl.create_default_context(cafile=f"{key}.crt")
    connection = HTTPSConnection(SCRIPT.HOST, server.server_port, context=trust, timeout=30)
    yield connection
    connection.close()
    server.shutdown()
    server.server_close()


def _asked(api: HTTPSConnection, method: str, path: str, document: Any = None) -> Any:
    body = None if document is None else json.dumps(document)
    api.request(method, f"/api/v1/namespaces/build/{path}", body)
    return json.load(api.getresponse())


def test_each_line_of_the_lists_is_kept_once_and_in_order() -> None:
    assert SCRIPT.merged_list(["# v\na\nb\n", "# v\na\nc\n"]) == "# v\na\nb\nc\n"


def test_numbers_of_java_21_do_not_collide() -> None:
    """Java 21 refuses a list in which two classes have one number, and numbers each list from 0."""
    driver = "a id: 0\nb id: 1\n@lambda-proxy b run id: x\nc id: 2 super: 0 source: /x.jar\n"
    executor = "a id: 0\nd id: 1\n"

    merged = SCRIPT.merged_list([driver, executor])

    assert merged == "a\nb\n@lambda-proxy b run id: x\nd\n"


def test_a_pod_is_an_executor_with_the_environment_of_its_container(
    api: HTTPSConnection, pods: Any, tmp_path: Path
) -> None:
    created = _asked(api, "POST", "pods", POD)

    (executor,) = pods.processes
    assert executor.wait(30) == 0
    started = (tmp_path / "started").read_text()
    assert started == f"executor spark://driver {SCRIPT.HOST} flags\n"
    assert created["status"]["phase"] == "Running"
    assert _asked(api, "GET", "pods?labelSelector=a")["items"] == [
        {key: value for key, value in created.items() if key != "apiVersion"}
    ]
    assert _asked(api, "PATCH", "pods/exec-1", {})["metadata"]["labels"] == {
        "spark-role": "executor"
    }


def test_the_drivers_pod_is_ready_so_that_spark_does_not_wait_for_it(
    api: HTTPSConnection,
) -> None:
    driver = _asked(api, "GET", f"pods/{SCRIPT.DRIVER}")

    assert {"type": "Ready", "status": "True"} in driver["status"]["conditions"]


def test_a_watch_is_a_websocket(api: HTTPSConnection) -> None:
    # Key and answer are the example of RFC 6455.
    key = b64encode(b"the sample nonce").decode()

    api.request("GET", "/api/v1/pods?watch=true", headers={"Sec-WebSocket-Key": key})
    answer = api.getresponse()

    assert answer.status == 101
    assert answer.headers["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
