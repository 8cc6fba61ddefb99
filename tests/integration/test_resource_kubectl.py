"""kubectl shows groups as docs/reference/consumer-group.md does: get, describe, explain, wait."""

import re
from collections.abc import Iterator

import pytest

from landfall_operator.api.definition import GROUP
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.groups import Groups
from tests.support.operator.documented_groups import Shown, printed, shown


@pytest.fixture(scope="module")
def examples_shown(resource: Cluster) -> Iterator[Groups]:
    """The groups of the page, with their status, in their own namespace."""
    groups = Groups(resource, resource.create_namespace())
    for group in shown():
        show(groups, group)
    yield groups
    resource.delete_namespace(groups.namespace)


def show(groups: Groups, group: Shown) -> None:
    groups.create(group.resource)
    status = group.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    groups.patch_status(group.name, {"status": status})


TIMES = ("LAST-COMMIT", "LAST-RUN", "AGE", "NEXT-RUN")


def cells(text: str, *without: str) -> list[list[str]]:
    """The rows of a table that kubectl prints, without the columns whose cells are times."""
    head, *rows = text.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", head)]
    columns = [
        (start, end)
        for start, end in zip(starts, [*starts[1:], None], strict=True)
        if head[start:end].strip() not in without
    ]
    return [[row[start:end].strip() for start, end in columns] for row in (head, *rows)]


@pytest.mark.parametrize("command", ["kubectl get cg", "kubectl get cg -o wide"])
def test_kubectl_get_prints_what_the_page_shows(examples_shown: Groups, command: str) -> None:
    output, on_page = examples_shown.kubectl(*command.split()[1:]), printed(command)
    names, left_out = output.split("\n")[0].split(), set[str]()
    if "…" in on_page:  # a table that is wider than the page leaves out columns
        left_out = {"…", *names} - {*on_page.split("\n")[0].split()} | {"…"}

    assert len(names) - len(left_out - {"…"}) >= 7
    assert cells(output, *TIMES, *left_out) == cells(on_page, *TIMES, *left_out)


def test_kubectl_describe_prints_what_the_page_shows(examples_shown: Groups) -> None:
    described = (
        examples_shown.kubectl("describe", "cg", "billing")
        .partition("\nStatus:\n")[2]
        .partition("\nEvents:")[0]
    )
    condition = (
        r"    Last Transition Time:.*\n    Message:.*\n    Observed.*\n"
        r"    Reason: +AsExpected\n    Status:.*\n    Type:.*\n"
    )

    assert timeless(re.sub(condition, "", described)) == timeless(
        printed("kubectl describe cg billing")
    )


def timeless(text: str) -> str:
    lines = [
        line.rstrip() for line in re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text).splitlines()
    ]
    return "\n".join(lines).strip()


@pytest.mark.parametrize(
    "command", ["kubectl explain cg.spec.uploadPolicy", "kubectl explain cg.spec --recursive"]
)
def test_kubectl_explains_what_the_page_shows(resource: Cluster, command: str) -> None:
    output = resource.kubectl(*command.split()[1:]).partition("FIELDS:\n")[2]

    assert timeless(output) == timeless(printed(command))


def test_groups_are_found_by_their_other_names(examples_shown: Groups) -> None:
    names = [f"consumergroup.landfall.dev/{group.name}" for group in shown()]

    for word in ("cg", "consumergroup", "landfall"):
        assert examples_shown.kubectl("get", word, "-o", "name").split() == names
    # What ``kubectl delete all --all`` deletes is not to have groups.
    assert GROUP not in examples_shown.kubectl("get", "all", "-o", "name")


def test_kubectl_waits_for_a_condition(examples_shown: Groups) -> None:
    assert "condition met" in examples_shown.kubectl(
        "wait", "--for=condition=Ready", "cg/clickstream", "--timeout=240s"
    )
    assert "condition met" in examples_shown.kubectl(
        "wait", "--for=condition=Stalled", "cg/billing", "--timeout=240s"
    )
