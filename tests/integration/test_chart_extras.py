"""What the chart takes besides its own objects, and what keeps it from being removed too early."""

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from tests.support.kubernetes.chart_values import SCENARIOS
from tests.support.kubernetes.helm import CHART, RELEASE, Refused, rendered, the

EXTRAS = SCENARIOS["extras"]
ME, OTHER = f"landfall/{RELEASE}-landfall-operator", "elsewhere/landfall-operator"


@pytest.fixture(scope="module")
def guard() -> ModuleType:
    """The program of the hook."""
    found = importlib.util.spec_from_file_location("guard", CHART / "files/guard.py")
    assert found
    assert found.loader
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


def group(name: str, holder: str | None, *, drains: bool = True) -> dict[str, Any]:
    finalizers = ["landfall.dev/drain"] if drains else []
    annotations = {"landfall.dev/operator": holder} if holder else {}
    metadata = {"name": name, "namespace": "logs", "finalizers": finalizers}
    return {"metadata": {**metadata, "annotations": annotations}}


def test_a_tag_may_be_a_number_and_a_pull_secret_written_as_in_a_pod() -> None:
    manifests = rendered(EXTRAS)

    pod = the("Deployment", manifests)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert container["image"].endswith("landfall-operator:20261127")
    assert pod["imagePullSecrets"] == [{"name": "pull"}, {"name": "other"}]
    assert environment["LANDFALL_IMAGE_PULL_SECRETS"] == "pull,other"


@pytest.mark.parametrize("tag", [1.5, True, -1, "a b"])
def test_a_tag_that_is_none_is_refused(tag: object) -> None:
    with pytest.raises(Refused, match=r"tag"):
        rendered({"image": {"operator": {"tag": tag}}})


def test_common_labels_are_on_every_object_and_extra_ones_are_templates() -> None:
    manifests = rendered(EXTRAS)

    extra = the("ConfigMap", manifests)
    assert extra["metadata"]["name"] == f"{RELEASE}-extra"
    without = [
        f"{each['kind']}/{each['metadata']['name']}"
        for each in manifests
        if each is not extra and each["metadata"].get("labels", {}).get("team") != "data"
    ]
    assert without == [f"Pod/{RELEASE}-landfall-test"]  # of `helm test`


def test_the_guard_is_there_if_it_is_asked_for() -> None:
    job = the("Job", rendered(EXTRAS))
    listed = {"namespaces": ["logs", "shop"]}

    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    assert container["command"][-1] == ME
    assert container["command"][2].endswith("main(*sys.argv[1:])")
    others = the("Job", rendered({**EXTRAS, "watch": listed}))
    command = others["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[3:] == [ME, "logs", "shop"]
    assert [each for each in rendered({}) if each["kind"] == "Job"] == []


def test_the_guard_names_the_groups_of_its_operator_alone(guard: ModuleType) -> None:
    pages = {
        "/consumergroups?limit=500&continue=": {
            "metadata": {"continue": "a/b"},
            "items": [group("mine", ME), group("theirs", OTHER), group("older", None)],
        },
        "/consumergroups?limit=500&continue=a/b": {
            "metadata": {},
            "items": [group("suspended", ME, drains=False), group("last", ME)],
        },
    }

    assert [*guard.managed(ME, [], pages.__getitem__)] == ["logs/mine", "logs/older", "logs/last"]


def test_the_guard_fails_while_groups_are_left(
    guard: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "managed", lambda *_: iter(["logs/a", "logs/b"]))
    with pytest.raises(SystemExit, match=r"logs/a, logs/b: delete these groups first"):
        guard.main(ME)

    monkeypatch.setattr(guard, "managed", lambda *_: iter([]))
    guard.main(ME)
    assert capsys.readouterr().out == "no group is left\n"


def test_targets_and_samples_are_relabelled_after_the_charts_own_rules() -> None:
    manifests = rendered(EXTRAS)
    (of_operator,) = the("ServiceMonitor", manifests)["spec"]["endpoints"]
    (of_drivers,) = the("PodMonitor", manifests)["spec"]["podMetricsEndpoints"]
    cluster = {"targetLabel": "cluster", "replacement": "eu"}
    drop = {"action": "labeldrop", "regex": "image"}

    assert [e["scrapeTimeout"] for e in (of_operator, of_drivers)] == ["10s", "10s"]
    assert [rule["targetLabel"] for rule in of_operator["relabelings"]] == [
        "landfall_release",
        "cluster",
    ]
    assert of_operator["metricRelabelings"] == [drop]
    assert of_drivers["relabelings"] == [cluster]
    # What keeps tenants apart stays, and comes first.
    kept, dropped, own = of_drivers["metricRelabelings"]
    assert (kept["action"], kept["regex"]) == ("keep", "landfall_.*")
    assert (dropped["action"], own) == ("labeldrop", drop)


def test_the_operators_pod_takes_volumes_beside_its_own() -> None:
    pod = the("Deployment", rendered(EXTRAS))["spec"]["template"]["spec"]

    assert [volume["name"] for volume in pod["volumes"]] == ["tmp", "certificates"]
    (container,) = pod["containers"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp", "/etc/proxy"]


def test_more_than_two_operators_have_a_budget_and_one_lease() -> None:
    manifests = rendered(EXTRAS)

    assert the("Deployment", manifests)["spec"]["replicas"] == 3
    assert the("PodDisruptionBudget", manifests)["spec"]["maxUnavailable"] == 1
