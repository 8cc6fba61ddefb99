"""A tenant with a namespace of its own, and whatever YAML, status and images it likes."""

import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from kubernetes.client.exceptions import ApiException

from landfall.api.contract import DriverPhase, PartitionStatus
from landfall.api.status_summary import summarize
from landfall_operator.api.verbs import PAUSE, PREFIX, Verb
from landfall_operator.objects.names import ACCEPT_LEDGER, OPERATOR_ANNOTATION, REVISION_LABEL
from tests.hostile.evidence import Attack
from tests.hostile.peers import OwnServer, always, endless, response
from tests.hostile.world import CONTROL_CHARACTERS, NAME, Tenant, World, cpu_seconds
from tests.support.kubernetes.cluster import Refused
from tests.support.kubernetes.groups import document
from tests.support.kubernetes.helm import of_kind, rendered
from tests.support.operator.reconciled import status_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PARTY = "Tenant"
MAX_RESOURCE = 192 * 1024
"""Bytes that a tenant's driver may make of the resource, which has a megabyte and a half."""
MAX_KEPT = 253
"""Characters of an annotation that a status may keep."""
SILENT = "own/silent:1"


@pytest.fixture(scope="module")
def tenant(world: World) -> Tenant:
    made = world.make_tenant()
    made.images.own[SILENT] = OwnServer(always(response(b"", status="503 Service Unavailable")))
    return made


@contextmanager
def applied(tenant: Tenant, *groups: dict[str, Any]) -> Iterator[None]:
    """Apply groups for the block; afterwards they are gone, whatever the operator did."""
    for group in groups:
        tenant.groups.create(group)
    try:
        yield
    finally:
        for group in groups:
            name = group["metadata"]["name"]
            tenant.groups.kubectl("delete", "consumergroup", name, "--timeout=120s")


def hostile(name: str, image: str = SILENT, **spec: Any) -> dict[str, Any]:
    """A group of the tenant."""
    return document(f"{name}-{uuid4().hex[:4]}", **{"image": image, **spec})


def condition(tenant: Tenant, group: dict[str, Any], kind: str) -> dict[str, str]:
    status = tenant.groups.read(group["metadata"]["name"]).get("status", {})
    found: dict[str, str] = next((c for c in status.get("conditions", []) if c["type"] == kind), {})
    return found


def seen(tenant: Tenant, group: dict[str, Any]) -> dict[str, str]:
    """The condition Ready once the operator has looked at a group."""
    return eventually(lambda: condition(tenant, group, "Ready"), bool)


# --------------------------------------------------------------------------------------- its specs


def test_patterns_that_match_for_ever(world: World, tenant: Tenant) -> None:
    letters = "a" * 60
    outer = hostile(
        "outer",
        output__url="s3://hostile/x",
        source__kafka={"bootstrapServers": "k:9092", "topicPattern": "(a+)+"},
        route__pattern="p/q",
    )
    inner = hostile("inner", output__url=f"s3://hostile/x/{letters}-", route__pattern="q")
    tried = "`topicPattern: (a+)+` and an output in the folder of another one, of 60 letters"

    with world.attack(PARTY, "a regular expression without end", tried) as attack:
        before = cpu_seconds(world.operator.popen.pid)
        with applied(tenant, outer, inner):
            for group in (outer, inner):
                seen(tenant, group)
            used = cpu_seconds(world.operator.popen.pid) - before
        attack.saw("both groups are looked at, and the operator works for less than ten seconds")
        assert used < 10


def test_an_output_around_and_inside_of_another_group_s(world: World, tenant: Tenant) -> None:
    output = dict(world.honest.scene.bucket.output)
    roots = [output["url"], f"{output['url']}/{world.topic}", f"{output['url']}/_landfall/{NAME}"]
    groups = [hostile("root", output={**output, "url": url}) for url in roots]
    tried = "`output.url` of the honest group, of a folder in it, and of its ledger"

    with world.attack(PARTY, "somebody else's output", tried) as attack, applied(tenant, *groups):
        for group, url in zip(groups, roots, strict=True):
            found = seen(tenant, group)
            attack.check(found["status"] != "True", f"a group in {url}")
            is_refused = found["reason"] == "SpecInvalid"
            may_be_nested = url.endswith(world.topic)
            attack.check(is_refused or may_be_nested, f"a group that may start in {url}")
        attack.saw("the root and the ledger's folder are refused: SpecInvalid")
        attack.saw("below a topic's folder, objects have other names: no conflict")
        # The operator passes over each group within 15 seconds, whatever happens.
        end = time.monotonic() + 20
        while time.monotonic() < end:
            assert world.honest.condition("Ready")[0] == "True"
            assert world.honest.condition("Stalled")[0] == "False"
            time.sleep(1)


OWN = "tests.hostile.gadget"


def named(world: World) -> list[dict[str, Any]]:
    """Specs that name code, each in another place."""
    options = {"java_path": "/bin/bash", "jarpath": "/etc/passwd"}
    gadget = {**options, "classpath": f"; touch {world.loot}/py4j; #"}
    return [
        {"transforms": [{"use": "py4j.java_gateway:launch_gateway", "options": gadget}]},
        {"transforms": [{"use": f"{OWN}:step"}]},
        {"decode": {"format": f"{OWN}:Format"}},
        {"output__format": f"{OWN}:Format"},
        {"output__store": f"{OWN}:Format"},
        {"publish": [{"name": "x", "kind": f"{OWN}:Format"}]},
        {"topics": [{"pattern": ".*", "transforms": [{"use": f"{OWN}:step"}]}]},
    ]


def test_names_of_code(world: World, tenant: Tenant) -> None:
    tried = (
        "`py4j.java_gateway:launch_gateway` and a module that says who imports it, as transform,"
        " decoder, format, store and publisher"
    )

    with world.attack(PARTY, "code in the operator", tried) as attack:
        look_at(tenant, attack, [hostile("code", **spec) for spec in named(world)])
        attack.saw("the operator imports nothing; the group's own pod would")


def look_at(tenant: Tenant, attack: Attack, groups: list[dict[str, Any]]) -> None:
    """Apply groups until the operator has looked at each that the API server accepts."""
    accepted = []
    for group in groups:
        try:
            tenant.groups.try_out(group)
        except ApiException:
            continue
        accepted.append(group)
    with applied(tenant, *accepted):
        states = {seen(tenant, group)["reason"] for group in accepted}
        events = json.loads(tenant.groups.kubectl("get", "events", "-o", "json"))["items"]
        texts = [str(event["message"]) for event in events]
        attack.check(all(map(str.isprintable, texts)), "an Event that is not printable")
    refused = len(groups) - len(accepted)
    attack.saw(f"of {len(groups)} groups, the API server refuses {refused}")
    if states:
        attack.saw(f"the rest is not Ready: {', '.join(sorted(states))}")


NAMES: list[tuple[str, dict[str, Any]]] = [
    ("topics", {"source__kafka": {"bootstrapServers": "k:9092", "topics": ["a\x1b[2J"]}}),
    ("format", {"decode": {"format": "x\n2026-01-01 00:00:00 info    all landed"}}),
    ("path", {"output__url": "s3://hostile/../../other\r\n"}),
    ("route", {"route__pattern": "../../{topic}/\u202e"}),
    ("column", {"decode__columns": [{"name": "\x1b]0;x\x07", "type": "Int8"}]}),
    ("servers", {"source__kafka": {"bootstrapServers": "k:9092\n\x9b2J", "topics": ["a"]}}),
    ("label", {"driver": {"labels": {"landfall.dev/group": "scene\n"}}}),
    ("annotation", {"driver": {"annotations": {"a": "\x1b[31m" * 100}}}),
]  # fmt: skip


def test_names_with_control_characters(world: World, tenant: Tenant) -> None:
    tried = f"escape sequences, line breaks, `..` in {', '.join(name for name, _ in NAMES)}"

    with world.attack(PARTY, "control characters and paths in a spec", tried) as attack:
        look_at(tenant, attack, [hostile("name", **spec) for _, spec in NAMES])


def answered(tenant: Tenant, name: str) -> dict[str, str]:
    """The requests that the operator has answered, by their verb."""
    found: dict[str, str] = tenant.groups.read(name).get("status", {}).get("answeredRequests") or {}
    return found


def test_annotations(world: World, tenant: Tenant) -> None:
    requests = [f"{PREFIX}{verb}" for verb in Verb] + [PAUSE, ACCEPT_LEDGER, f"{PREFIX}unknown"]
    values = {
        "control characters": "\x1b[2J\u202e\n2026-01-01 00:00:00 info    honest: all landed",
        "200 kB": "x" * (200_000 // len(requests)),
        "a revision of the honest group": world.honest.status()["rollout"]["active"],
        "a path": f"../../{world.honest.namespace}/{NAME}",
    }
    groups = [hostile("noted") for _ in range(len(values) + 1)]
    for group, value in zip(groups, values.values(), strict=False):
        group["metadata"]["annotations"] = dict.fromkeys(requests, value)
    groups[-1]["metadata"]["annotations"] = {OPERATOR_ANNOTATION: values["control characters"]}
    before = world.honest.status()["rollout"]
    tried = f"requests and an operator's claim with {', '.join(values)}"

    with world.attack(PARTY, "annotations", tried) as attack, applied(tenant, *groups):
        for group in groups[:-1]:
            name = group["metadata"]["name"]
            eventually(partial(answered, tenant, name), lambda verbs: Verb.ROLLBACK in verbs)
        found = json.loads(tenant.groups.kubectl("get", "cg,events", "-o", "json"))["items"]
        for item in found:
            status = item.get("status", {})
            texts = [str(item.get("message", "")), status.get("lastRequest", {}).get("message", "")]
            texts += [each["message"] for each in status.get("conditions", [])]
            attack.check(all(map(str.isprintable, texts)), f"texts that are not printable: {texts}")
            longest = max(map(len, (status.get("answeredRequests") or {"": ""}).values()))
            attack.check(longest <= MAX_KEPT, f"a value of {longest} characters in a status")
        attack.check(world.honest.status()["rollout"] == before, "a request to the honest group")
        attack.saw("requests are of the group that has them; texts are cut and printable")


@pytest.mark.parametrize("shown", ["status", "Event"])
def test_the_answer_to_a_request(world: World, tenant: Tenant, shown: str) -> None:
    image = f"own/{uuid4().hex[:6]}:1"
    tenant.images.own[image] = forged(
        world, lambda status: replace(status, phase=DriverPhase.RUNNING)
    )
    group = hostile("asking", image)
    name = group["metadata"]["name"]
    asked = "\x1b]0;owned\x07\x1b[2J\u202e"
    tried = "a rollback to a revision whose name is escape sequences, of a group with a driver"

    numbers = count()

    def message() -> str:
        """Ask again, and return what is said of the last request that was answered."""
        words = ("consumergroup", name, f"{PREFIX}{Verb.ROLLBACK}={asked} {next(numbers)}")
        tenant.groups.kubectl("annotate", "--overwrite", *words)
        if shown == "status":
            return str(
                tenant.groups.read(name).get("status", {}).get("lastRequest", {}).get("message", "")
            )
        about = f"involvedObject.name={name},reason=RequestRefused"
        events = tenant.groups.kubectl("get", "events", "--field-selector", about, "-o", "json")
        return "".join(each["message"] for each in json.loads(events)["items"])

    with world.attack(PARTY, f"the answer to a request, in the {shown}", tried) as attack:
        with applied(tenant, group):
            said = eventually(message, lambda text: "no other revision" in text)
        attack.check(said.isprintable(), f"{said!r}")
        attack.saw("the name is shown with escapes")


def test_a_status_for_the_terminal_of_an_administrator(world: World, tenant: Tenant) -> None:
    group = hostile("shown")
    name = group["metadata"]["name"]
    text = "\x1b]0;owned\x07\x1b[2J\u202eall landed"
    request = {"verb": "retry", "accepted": True, "message": text, "time": "2026-01-01T00:00:00Z"}

    with world.attack(
        PARTY,
        "what `kubectl landfall` prints",
        "a status with escape sequences, and a driver's name that is an option",
    ) as attack:
        with applied(tenant, group):
            seen(tenant, group)
            for status in (
                {"rollout": {"active": "--all-namespaces -f/etc/passwd"}},
                {"rollout": {"active": text}, "lastRequest": request},
            ):
                with suppress(ApiException):
                    tenant.groups.patch_status(name, {"status": status})
                for words in (("status", name), ("retry", name, "--timeout", "3")):
                    said = plugin(tenant, *words)
                    attack.check(not CONTROL_CHARACTERS & set(said), f"{words[0]}: {said!r}")
                    attack.check("\u202e" not in said, f"{words[0]}: {said!r}")
            for wrong in ("-A", "--kubeconfig=/etc/passwd"):
                said = plugin(tenant, "retry", "--", wrong)
                attack.check("not the name of a group" in said, f"{wrong} as a name: {said!r}")
        attack.saw("texts are printed without escape sequences; names are names")


def plugin(tenant: Tenant, *words: str) -> str:
    """What ``kubectl landfall`` prints, whether or not it ends with success."""
    try:
        command, *others = words
        return tenant.groups.cluster.kubectl("landfall", command, "-n", tenant.namespace, *others)
    except Refused as refused:
        return str(refused)


SECRETS = ("../{other}/s3", "{other}/s3", "/etc/shadow", "..", "s3")


def test_secrets_of_somebody_else(world: World, tenant: Tenant) -> None:
    groups: list[dict[str, Any]] = []
    for name in SECRETS:
        output = {**world.honest.scene.bucket.output, "url": f"s3://hostile/{len(groups)}"}
        reference = {"name": name.replace("{other}", world.honest.namespace)}
        output["s3"] = {**output["s3"], "credentialsSecretRef": reference}
        groups.append(hostile("secret", "landfall:1", output=output))
    secret = world.honest.scene.bucket.server.env["AWS_SECRET_ACCESS_KEY"]
    tried = f"`credentialsSecretRef` with {', '.join(f'`{name}`' for name in SECRETS)}"

    with world.attack(PARTY, "Secrets of another namespace", tried) as attack:
        look_at(tenant, attack, groups)
        assert tenant.kubelet.running_drivers == {}
        kinds = "cg,configmaps,secrets,events,deployments,controllerrevisions,pods"
        everything = tenant.groups.kubectl("get", kinds, "-o", "json")
        attack.check(secret not in everything, "the store's key of the honest group")
        attack.saw("a name is looked up in the group's own namespace, so its pod waits")


# ----------------------------------------------------------------------------------------- its pods


def driver_answers(world: World, tenant: Tenant, server: OwnServer, name: str) -> dict[str, Any]:
    """Run a group with its own driver until the operator asked it often; the resource then."""
    image = f"own/{uuid4().hex[:6]}:1"
    tenant.images.own[image] = server
    group = hostile(name, image)
    with applied(tenant, group):
        eventually(lambda: sum("/status" in each for each in server.asked), (3).__le__)
        time.sleep(4)  # another pass, over what was answered
        return tenant.groups.read(group["metadata"]["name"])


BOMB = gzip.compress(b'{"partitions":[' + b"0," * (200 << 20) + b"0]}", 6)
ANSWERS: dict[str, tuple[str, Callable[[World], OwnServer]]] = {
    "a gzip bomb": (
        "400 MiB of JSON in a few hundred kilobytes of gzip",
        lambda _: OwnServer(always(response(BOMB, "Content-Encoding: gzip"))),
    ),
    "redirects": (
        "`/status` and the control paths send the operator to a server of the cluster",
        lambda world: OwnServer(
            always(
                response(
                    b"",
                    f"Location: {world.outside.url}/latest/meta-data/",
                    status="307 Temporary Redirect",
                )
            )
        ),
    ),
    "an answer without end": (
        "a megabyte of JSON every 50 ms",
        lambda _: OwnServer(
            endless(b"HTTP/1.1 200 OK\r\n\r\n[", b"0," * (1 << 19), 0.05),
        ),
    ),
    "an answer that drips": (
        "a byte a second",
        lambda _: OwnServer(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"[", 1.0)),
    ),
    "headers without end": (
        "a header of 64 KiB every 50 ms",
        lambda _: OwnServer(endless(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 65_536, 0.05)),
    ),
    "deep nesting": (
        "100,000 brackets",
        lambda _: OwnServer(always(response(b"[" * 100_000))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_that_are_no_status(world: World, tenant: Tenant, name: str) -> None:
    tried, server = ANSWERS[name]

    with world.attack(PARTY, f"{name}, answered to `/status`", tried) as attack:
        found = driver_answers(world, tenant, server(world), "answers")
        size = len(json.dumps(found))
        assert size < MAX_RESOURCE
        attack.saw("the operator has no status of it, and its memory stays below 400 MiB")


def forged(world: World, change: Callable[[Any], Any]) -> OwnServer:
    """A driver that answers with a status of its own making."""

    async def answer(_method: str, _path: str, pod: dict[str, Any]) -> AsyncIterator[bytes]:
        status = status_of(pod["metadata"]["labels"][REVISION_LABEL], datetime.now(UTC))
        yield response(json.dumps(asdict(change(status)), default=str).encode())

    return OwnServer(answer)


def test_a_huge_status(world: World, tenant: Tenant) -> None:
    text = "\x1b[2J\n2026-01-01 00:00:00 info    honest: all landed" * 3

    def huge(status: Any) -> Any:
        parts = tuple(
            PartitionStatus(f"t{n}{text}", n, 0, n, n, 1.0, 0.0, blocked="X" * 90, message=text)
            for n in range(400)
        )
        body = replace(summarize(replace(status, phase=DriverPhase.RUNNING, partitions=parts)))
        return replace(body, partitions=parts, version=text * 20)

    with world.attack(PARTY, "a huge status", "256 KiB of control characters, lists and texts") as (
        attack
    ):
        found = driver_answers(world, tenant, forged(world, huge), "huge")
        size = len(json.dumps(found))
        assert size < MAX_RESOURCE
        attack.saw("each text and list is cut: the resource has less than 192 KiB")
        messages = [c["message"] for c in found.get("status", {}).get("conditions", [])]
        attack.check(all(map(str.isprintable, messages)), "control characters in a condition")


def test_the_status_of_somebody_else(world: World, tenant: Tenant) -> None:
    honest = world.honest

    def stolen(status: Any) -> Any:
        # Without a revision, an answer is one of an old release: it may be of any revision.
        of_honest = {"group": NAME, "namespace": honest.namespace, "revision": ""}
        return replace(status, **of_honest, lag_records=10**12, epoch=99)

    with world.attack(
        PARTY, "another group's identity", "`/status` that names the honest group, with a huge lag"
    ) as attack:
        driver_answers(world, tenant, forged(world, stolen), "forged")
        world.check_operator(attack)  # it looks at the honest group once more
        lag = world.operator.metric("landfall_group_lag_records", namespace=honest.namespace)
        assert honest.status()["lag"]["records"] < 10**12
        attack.check(lag < 10**12, "the lag of the honest group in the operator's metrics")
        attack.saw("status and metrics are of the group whose pod answers")


def test_forged_metrics(world: World) -> None:
    values = {"monitoring": {"podMonitor": {"enabled": True}}}

    with world.attack(
        PARTY,
        "metrics of somebody else",
        'a pod that exposes `landfall_lag_seconds{namespace="honest"} 0`',
    ) as attack:
        for monitor in of_kind("PodMonitor", rendered(values)):
            for endpoint in monitor["spec"]["podMetricsEndpoints"]:
                attack.check(not endpoint.get("honorLabels"), "a namespace that the pod chooses")
                kept = [r for r in endpoint["metricRelabelings"] if r.get("action") == "keep"]
                attack.check(kept, "metrics of any name")
            limits = {"sampleLimit", "labelLimit"}
            attack.check(limits <= monitor["spec"].keys(), "any number of samples")
        attack.saw("Prometheus takes the namespace from the pod, and `landfall_*` only")


# ------------------------------------------------------------------------------------- its objects


def test_objects_with_the_names_and_labels_of_somebody_else(world: World, tenant: Tenant) -> None:
    (pod,) = world.honest.pods("driver").values()
    listed = world.honest.kubectl("get", "configmaps,services,deployments", "-o", "json")
    owned = [i for i in json.loads(listed)["items"] if "ownerReferences" in i["metadata"]]
    before = {item["metadata"]["uid"] for item in owned}
    copies = [_copy(item, tenant.namespace) for item in [*owned, {**pod, "kind": "Pod"}]]

    tried = "its Deployment, Pod, Service and ConfigMaps, with labels and owner, elsewhere"

    with world.attack(PARTY, "objects that look like the honest group's", tried) as attack:
        for copy in copies:
            tenant.groups.kubectl("create", "--validate=false", "-f", "-", manifest=copy)
        time.sleep(6)
        found = world.honest.kubectl("get", "configmaps,services,deployments", "-o", "json")
        assert before <= {item["metadata"]["uid"] for item in json.loads(found)["items"]}
        attack.saw("they are objects of nobody: the operator looks at namespace and owner")
        tenant.groups.kubectl("delete", "pods,deployments,services", "--all", "--wait=false")


def _copy(item: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    owners = metadata.get("ownerReferences", [])
    spec = {**item.get("spec", {})}
    for assigned in ("clusterIP", "clusterIPs", "nodeName", "serviceAccountName", "serviceAccount"):
        spec.pop(assigned, None)
    body = {"spec": spec} if spec else {"data": item.get("data", {})}
    versions = {"Deployment": "apps/v1"}
    return {
        "apiVersion": versions.get(item["kind"], "v1"),
        "kind": item["kind"],
        "metadata": {**kept, "namespace": namespace, "ownerReferences": owners},
        **body,
    }


def test_a_status_that_the_tenant_writes(world: World, tenant: Tenant) -> None:
    group = hostile("status")
    name = group["metadata"]["name"]
    text = "\x1b[2J\nall landed" * 1_000

    with world.attack(
        PARTY, "a status of its own", "conditions, rollout and ledger of the resource, overwritten"
    ) as attack:
        with applied(tenant, group):
            seen(tenant, group)
            for body in (
                {"phase": "Running", "rollout": {"active": "g1-forged", "target": "g9-x"}},
                {"ledger": {"epoch": 2**53, "slot": 2**53, "sha256": "0" * 64}},
                {"history": [{"revision": text, "generation": n} for n in range(20)]},
                {"conditions": [{"type": "Ready", "status": "True", "reason": "X",
                                 "message": text, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            ):  # fmt: skip
                try:
                    tenant.groups.patch_status(name, {"status": body})
                except ApiException as error:
                    attack.saw(f"the API server refuses {next(iter(body))}: {error.status}")
            time.sleep(6)
        attack.saw("the operator reads what it can of it, and lets the group go when it is deleted")
