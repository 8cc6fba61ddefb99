"""``docs/start/cluster.md`` is followed as printed, by a reader without a cluster of their own.

The cluster, Kafka and S3 of the session stand for those that the first commands of its last section
start. What a reader fills in is filled in here: addresses, keys, sizes that fit a small node, and a
``maxAge`` of seconds instead of five minutes.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dev.kube import programs
from tests.support.kubernetes.cluster import Refused
from tests.support.kubernetes.stack import Stack
from tests.support.pages.markdown import DOCS, ROOT, code
from tests.support.pages.start_pages import Shell, steps

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.xdist_group("node"),
]

PAGE = DOCS / "start" / "cluster.md"
NAMESPACE = "logs"
STARTED = ("make cluster", "dev/cluster", "dev/kafka", "dev/s3", "eval ")
"""Commands that the session has carried out."""
PATCH = 'kubectl -n logs patch cg clickstream --type=merge -p \'{"spec":{"'
AFTER = {
    "kubectl apply": {
        ".status.phase": "Running",
        ".status.commits.lastTime": "",
        ".status.lag.records": "0",
    },
    "kubectl -n logs scale": {".status.replicas": "3"},
    f"{PATCH}generation": {".status.activeGeneration": "2", ".status.phase": "Running"},
    f"{PATCH}state": {".status.phase": "Suspended"},
}
"""What a reader waits for, by the beginning of a command: values of fields, empty for any."""


def filled(text: str, stack: Stack) -> str:
    """A text of the page with the values of this reader."""
    values = {
        "kafka.kafka:9092": str(stack.kafka),
        "s3: {region": f"s3: {{endpoint: '{stack.s3.endpoint}', pathStyle: true, region",
        "maxAge: 5m": "maxAge: 5s",
        "  replicas: 1 ": (
            "  executor: {cores: 1, resources: {requests: {cpu: 100m}}}\n  replicas: 1 "
        ),
        **{f"{key}=…": f"{key}={value}" for key, value in stack.s3.env.items()},
    }
    for printed, own in values.items():
        text = text.replace(printed, own)
    return text


def in_order(page: Path) -> list[str]:
    """The commands of the page, as they are typed if its last section is followed first."""
    typed = [command for command, _ in steps(page) if not command.startswith(STARTED)]
    below = next(n for n, command in enumerate(typed) if command.startswith("helm install"))
    return [*typed[below:], *typed[:below]]


def waiting(command: str) -> Iterator[str]:
    """What is typed after a command of the page until it has had its effect."""
    for begin, fields in AFTER.items():
        for path, value in fields.items() if command.startswith(begin) else ():
            holds = f"--for=jsonpath='{{{path}}}'{f'={value}' if value else ''}"
            yield f"kubectl -n {NAMESPACE} wait cg/clickstream --timeout=300s {holds}"


@pytest.fixture
def shell(stack: Stack, tmp_path: Path) -> Iterator[Shell]:
    """A shell in the checkout, on a cluster in which the operator is not installed."""
    folders = (Path(sys.executable).parent, programs.helm(), programs.control_plane())
    environment = {
        **os.environ,
        **stack.s3.env,
        "LANDFALL_S3": stack.s3.endpoint,
        "LANDFALL_KAFKA": str(stack.kafka),
        "KUBECONFIG": str(stack.cluster),
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
    }
    stack.uninstall()
    made = Shell(ROOT, tmp_path, environment)
    yield made
    made.process.kill()
    made.process.wait()
    let_go = '{"metadata":{"finalizers":null}}'
    with suppress(Refused):  # there is no group if the page did not come so far
        stack.cluster.kubectl(
            "-n", NAMESPACE, "patch", "cg", "clickstream", "--type=merge", "-p", let_go
        )
    stack.cluster.delete_namespace(NAMESPACE)
    stack.install()


def test_the_page_leads_to_a_group_that_lands(stack: Stack, shell: Shell) -> None:
    group, producer = shell.own / "clickstream.yaml", shell.own / "produce.py"
    (text,) = (block.text for block in code(PAGE, "yaml") if group.name in block.text)
    laptop = code(DOCS / "start" / "laptop.md", "python")
    producer.write_text(next(block.text for block in laptop if producer.name in block.text))
    group.write_text(filled(text, stack))
    said = dict[str, str]()

    for command in in_order(PAGE):
        if command.startswith("landfall"):  # out here, the keys are in the environment
            outside = filled(text, stack).replace(", credentialsSecretRef: {name: s3}", "")
            group.write_text(outside)
        typed = filled(command, stack)
        for file in (group, producer):
            typed = typed.replace(file.name, f"/tmp/{file.name}")  # the shell's own folder
        said[command] = shell.type(typed)
        assert shell.code == 0, f"$ {command}\n{said[command]}"
        for waits in waiting(command):
            assert (shell.type(waits), shell.code)[1] == 0, f"{waits}, after $ {command}"

    listed = dict(steps(PAGE))["kubectl -n logs get consumergroups"].splitlines()
    ours = said["kubectl -n logs get consumergroups"].splitlines()
    assert said["kubectl apply -f clickstream.yaml"].endswith("clickstream created")
    assert ours[0].split() == listed[0].split()
    assert ours[1].split()[:2] == listed[1].split()[:2]
    assert "caught up, 10,000 records" in said["landfall status clickstream.yaml"]
    assert "no fault found" in said["landfall audit clickstream.yaml"]
