"""The resource at a real API server: which specs it accepts, its defaults, the documented errors,
merging and scaling.
"""

import re
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from landfall.api.spec import parse_group
from landfall_operator.api import backfill
from landfall_operator.api.crd import PLURAL, schema
from landfall_operator.api.definition import GROUP
from landfall_operator.api.validation import parsed
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.kubernetes.groups import Groups, Json, changed, document, refusal, yaml_blocks
from tests.support.operator.defaults import defaulted
from tests.support.operator.documented_groups import printed
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "consumer-group.md").read_text()


def table(heading: str) -> list[tuple[str, ...]]:
    """The code in each row of the table whose head begins with this cell."""
    rows = PAGE.partition(f"\n| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [
        tuple(cell.replace("\\|", "|") for cell in re.findall(r"`((?:[^`\\]|\\.)+)`", row))
        for row in rows
    ]


def set_to(base: Json, path: str, value: object) -> Json:
    return changed(base, path if path.startswith("metadata.") else f"spec.{path}", value)


def written(base: Json, cell: str) -> Json:
    """The group with the field that a cell sets, as in ``uploadPolicy.maxAge: 5m``."""
    path, _, value = cell.partition(": ")
    return set_to(base, path, yaml.safe_load(value))


WRONG = [(row[0], row[1], row[2:]) for row in table("under `spec` | answer")]
IMMUTABLE = table("from")
OPERATOR_CHECKED = table("under `spec` | message")


@pytest.fixture
def dry_run(resource: Cluster) -> Groups:
    """A namespace for dry runs, for tests that create no group."""
    return Groups(resource, "default")


def test_the_api_server_accepts_the_schema(resource: Cluster) -> None:
    definition = client.ApiextensionsV1Api(resource.admin).read_custom_resource_definition(
        f"{PLURAL}.{GROUP}"
    )

    conditions = {condition.type: condition.status for condition in definition.status.conditions}

    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_the_api_server_writes_every_default_into_the_object(groups: Groups) -> None:
    group = document(
        decode__timestamp={"field": "ts"},
        autoscaling={},
        output__s3={"assumeRole": {"roleArn": "arn:aws:iam::1:role/r"}},
        decode__columns=[{"name": "a", "type": "String"}],
    )

    stored = groups.create(group)["spec"]

    assert stored == defaulted(schema()["properties"]["spec"], group["spec"])
    assert parse_group({**group, "spec": stored}) == parse_group(group)


@pytest.mark.parametrize(("cell", "answer", "_right"), WRONG, ids=[cell for cell, _, _ in WRONG])
def test_a_wrong_value_gets_the_documented_answer(
    dry_run: Groups, cell: str, answer: str, _right: object
) -> None:
    with pytest.raises(ApiException) as refused:
        dry_run.try_out(written(document(), cell))

    assert refusal(refused.value) == answer


@pytest.mark.parametrize(("cell", "right"), [(cell, right[0]) for cell, _, right in WRONG])
def test_the_documented_correction_is_accepted(dry_run: Groups, cell: str, right: str) -> None:
    path = cell.partition(": ")[0]
    if right == "topics":  # leave it out
        accepted = changed(written(document(), cell), "spec.source.kafka.topics", None)
    elif path == "replica":
        accepted = written(document(), right)
    else:
        accepted = set_to(document(), path, yaml.safe_load(right))

    assert dry_run.try_out(accepted)["spec"]


def test_every_rule_is_in_the_documentation() -> None:
    tables = "\n".join([*(answer for _, answer, _ in WRONG), *(row[2] for row in IMMUTABLE)])
    # ``test_the_replicas_of_a_group_that_scales_itself_…`` tries what is in no table.
    also = PAGE.partition("not changed while `autoscaling`")[2].partition("\n\n")[0]
    answers = f"{tables}\n{' '.join(also.split())}"

    assert len(messages(schema())) > 20
    assert [message for message in messages(schema()) if message not in answers] == []


def messages(node: Any) -> set[str]:
    """The messages of all rules, anywhere below."""
    if isinstance(node, list):
        return set().union(*map(messages, node))
    if not isinstance(node, dict):
        return set()
    own = {rule["message"] for rule in node.get("x-kubernetes-validations", ())}
    return own.union(*map(messages, node.values()))


@pytest.mark.parametrize(("before", "after", "answer"), IMMUTABLE)
def test_an_immutable_field_cannot_be_changed(
    groups: Groups, before: str, after: str, answer: str
) -> None:
    path = before.partition(": ")[0]
    groups.create(written(document(), before))
    change = changed({}, f"spec.{path}", yaml.safe_load(after))

    with pytest.raises(ApiException) as refused:
        groups.patch("clicks", change)

    assert refusal(refused.value) == answer


@pytest.mark.parametrize(
    ("cell", "message"), OPERATOR_CHECKED, ids=[cell for cell, _ in OPERATOR_CHECKED]
)
def test_the_operator_finds_errors_that_the_api_server_cannot(
    dry_run: Groups, cell: str, message: str
) -> None:
    stored = dry_run.try_out(written(document(), cell))

    assert parsed(stored) == (None, message)


def test_kubectl_prints_the_documented_error(groups: Groups) -> None:
    with pytest.raises(Refused) as refused:
        groups.kubectl("apply", "-f", "-", manifest=document(uploadPolicy__maxAge="5"))

    assert str(refused.value) == printed("kubectl apply -f clicks.yaml")


# ------------------------------------------------------------------- all YAML in the documentation

FILLED = {"LANDFALL_KAFKA": "127.0.0.1:9092", "LANDFALL_S3": "http://127.0.0.1:9000", "BUCKET": "b"}


def filled(text: str) -> str:
    """The text with values for its variables, and with the defaults of those that have one."""
    return Template(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)).safe_substitute(FILLED)


def examples() -> list[tuple[str, Json]]:
    """Every ConsumerGroup, or part of one, and Backfill, in the documentation and in examples/."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        (page.name, block) for page in pages for block in yaml_blocks(filled(page.read_text()))
    ]
    for file in sorted((ROOT / "examples").rglob("*.yaml")):
        found += [(file.name, each) for each in yaml.safe_load_all(filled(file.read_text()))]
    return [(name, whole(block)) for name, block in found if is_ours(block)]


def is_ours(block: object) -> bool:
    return isinstance(block, dict) and (
        block.get("kind") == "ConsumerGroup" or bool(block.keys() & {"spec", "source", "output"})
    )


def whole(block: Json) -> Json:
    """A part of a group, completed to a whole one."""
    if "kind" in block:
        return block
    return laid_over(document("example"), block if "spec" in block else {"spec": block})


def laid_over(base: Json, more: Json) -> Json:
    merged = {
        key: laid_over(base[key], value) if isinstance(base.get(key), dict) else value
        for key, value in more.items()
    }
    return {**base, **merged}


def test_there_are_examples() -> None:
    assert {"README.md", "consumer-group.md", "backup.yaml", "partition.yaml"} <= {
        name for name, _ in examples()
    }


@pytest.mark.parametrize(("_name", "example"), examples(), ids=[name for name, _ in examples()])
def test_every_example_is_accepted(dry_run: Groups, _name: str, example: Json) -> None:
    example["metadata"].pop("namespace", None)
    if example["kind"] == backfill.KIND:
        options = ("--dry-run=server", "--validate=strict", "-f", "-")
        assert " created" in dry_run.kubectl("create", *options, manifest=example)
        assert backfill.parsed(example["spec"])[1] == ""
        return

    stored = dry_run.try_out(
        yaml.safe_load(
            yaml.safe_dump(example),
        )
    )

    assert parsed(stored)[1] == ""


# ------------------------------------------------------------------------ several writers, status


def test_two_who_apply_share_one_group(groups: Groups) -> None:
    ours = document(driver__env=[{"name": "A", "value": "1"}], source__kafka__topics=["clicks"])
    theirs = {
        **{key: ours[key] for key in ("apiVersion", "kind", "metadata")},
        "spec": {
            "replicas": 3,
            "driver": {"env": [{"name": "B", "value": "2"}]},
            "source": {"kafka": {"topics": ["views"]}},
        },
    }
    for manager, manifest in (("gitops", ours), ("team", theirs), ("gitops", ours)):
        groups.kubectl(
            "apply", "--server-side", "--field-manager", manager, "-f", "-", manifest=manifest
        )

    spec = groups.read("clicks")["spec"]
    assert spec["driver"]["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert (spec["replicas"], sorted(spec["source"]["kafka"]["topics"])) == (3, ["clicks", "views"])


def test_applying_another_managers_field_names_that_manager(groups: Groups) -> None:
    groups.kubectl(
        "apply",
        "--server-side",
        "--field-manager",
        "gitops",
        "-f",
        "-",
        manifest=document(replicas=1),
    )

    with pytest.raises(Refused, match=r'conflict with "gitops"[^\n]*: \.spec\.replicas'):
        groups.kubectl(
            "apply",
            "--server-side",
            "--field-manager",
            "team",
            "-f",
            "-",
            manifest=document(replicas=2),
        )


def test_scaling_survives_an_apply_without_replicas(groups: Groups) -> None:
    apply = ("apply", "--server-side", "--field-manager", "gitops", "-f", "-")
    groups.kubectl(*apply, manifest=document())

    groups.kubectl("scale", "cg/clicks", "--replicas", "3")
    groups.kubectl(*apply, manifest=document())

    assert groups.read("clicks")["spec"]["replicas"] == 3


def test_spec_and_status_are_written_separately(groups: Groups) -> None:
    before = groups.create({**document(), "status": {"phase": "Running"}})
    both = {"spec": {"replicas": 2}, "status": {"phase": "Running", "observedGeneration": 1}}

    groups.patch_status("clicks", both)
    patched = groups.read("clicks")
    groups.patch("clicks", {**both, "status": {"phase": "Stalled"}})
    after = groups.read("clicks")

    assert before["status"] == {"observedGeneration": -1}
    assert (patched["spec"], patched["status"], patched["metadata"]["generation"]) == (
        before["spec"],
        both["status"],
        1,
    )
    assert (after["spec"]["replicas"], after["status"], after["metadata"]["generation"]) == (
        2,
        both["status"],
        2,
    )


def test_conditions_are_merged_by_their_type(groups: Groups) -> None:
    groups.create(document())
    for kind in ("Ready", "Stalled"):
        condition = {
            "type": kind,
            "status": "True",
            "reason": "AsExpected",
            "observedGeneration": 1,
        }
        applied = {
            **{key: document()[key] for key in ("apiVersion", "kind", "metadata")},
            "status": {"conditions": [{**condition, "lastTransitionTime": "2026-11-21T00:00:00Z"}]},
        }
        options = ("--server-side", "--subresource=status", "--field-manager", kind)
        groups.kubectl("apply", *options, "-f", "-", manifest=applied)

    assert [c["type"] for c in groups.read("clicks")["status"]["conditions"]] == [
        "Ready",
        "Stalled",
    ]


def test_the_words_of_a_newer_operator_are_accepted(groups: Groups) -> None:
    groups.create(document())

    groups.patch_status("clicks", {"status": {"phase": "Dancing"}})

    assert groups.read("clicks")["status"]["phase"] == "Dancing"


def test_scale_reads_and_writes_the_executors(groups: Groups) -> None:
    groups.create(document())
    groups.patch_status(
        "clicks", {"status": {"replicas": 1, "selector": "landfall.dev/group=clicks"}}
    )

    groups.patch_scale("clicks", 4)

    scale = groups.read_scale("clicks")
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 4},
        {"replicas": 1, "selector": "landfall.dev/group=clicks"},
    )
    assert groups.read("clicks")["spec"]["replicas"] == 4


def test_scale_has_the_bounds_of_the_spec(groups: Groups) -> None:
    groups.create(document())

    with pytest.raises(ApiException) as refused:
        groups.patch_scale("clicks", 1001)

    assert "should be less than or equal to 1000" in refusal(refused.value)


def test_the_replicas_of_a_group_that_scales_itself_are_not_changed_in_vain(groups: Groups) -> None:
    groups.create(document(autoscaling={"maxReplicas": 4}))

    with pytest.raises(ApiException) as refused:
        groups.patch_scale("clicks", 4)
    groups.patch("clicks", {"spec": {"autoscaling": None, "replicas": 3}})
    groups.patch("clicks", {"spec": {"autoscaling": {"maxReplicas": 4}, "replicas": 2}})

    assert "replicas has no effect with autoscaling" in refusal(refused.value)
    assert groups.read("clicks")["spec"]["replicas"] == 2


def test_a_horizontal_pod_autoscaler_scales_a_group(groups: Groups) -> None:
    """Below its minimum it scales without metrics, which do not exist here."""
    groups.create(document())
    groups.patch_status(
        "clicks", {"status": {"replicas": 1, "selector": "landfall.dev/group=clicks"}}
    )

    groups.kubectl("autoscale", "cg/clicks", "--min=2", "--max=5", "--cpu=50%")

    eventually(lambda: groups.read("clicks")["spec"]["replicas"], lambda replicas: replicas == 2)
