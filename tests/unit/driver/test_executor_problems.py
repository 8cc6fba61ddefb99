"""What Spark's log says of executors that end or do not come."""

import io

from landfall.api.contract import ExecutorProblem
from landfall.driver.spark.executor_problems import (
    CURRENT_SECONDS,
    ExecutorProblems,
    executor_problem,
)
from landfall.driver.spark.jvm import StartupOutput

REFUSED = (
    "2026-11-21T10:00:00,000 WARN ExecutorPodsSnapshotsStoreImpl: Exception when notifying "
    "snapshot subscriber. Failure executing: POST at: https://kubernetes.default.svc:443/api/v1/namespaces/"
    'logs/pods. Message: pods "landfall-clicks-9f-exec-7" is forbidden: exceeded quota: small, '
    "requested: memory=1Gi, used: memory=3Gi, limited: memory=3Gi. Received status: "
    "Status(apiVersion=v1, code=403, details=null, kind=Status).\n"
)
KILLED = "\t container state: terminated\n", "\t termination reason: OOMKilled\n"


def test_a_refused_pod_is_reported_without_its_name() -> None:
    assert executor_problem(REFUSED) == ExecutorProblem(
        "PodRefused",
        "pods is forbidden: exceeded quota: small, requested: memory=1Gi, used: memory=3Gi, "
        "limited: memory=3Gi",
    )
    assert executor_problem(REFUSED.replace("exec-7", "exec-8")) == executor_problem(REFUSED)
    denied = executor_problem(REFUSED.replace("Message: pods", "Message: Forbidden! pods"))
    assert denied
    assert denied.message.startswith("Forbidden! pods is forbidden: exceeded quota")


def test_an_executor_killed_at_its_memory_limit_is_reported() -> None:
    problem = ExecutorProblem("OutOfMemory", "an executor was killed at its memory limit")

    assert [executor_problem(line) for line in KILLED] == [None, problem]


def test_other_lines_are_no_problem() -> None:
    assert executor_problem("ERROR TaskSchedulerImpl: Lost executor 3 on 10.0.0.1: gone") is None
    assert executor_problem("") is None


def test_a_problem_is_reported_until_spark_is_silent_for_a_while() -> None:
    now = [0.0]
    problems = ExecutorProblems(lambda: now[0])
    assert problems.latest is None
    problems.read(REFUSED)
    problems.read("anything else")

    assert problems.latest == executor_problem(REFUSED)
    now[0] = CURRENT_SECONDS
    assert problems.latest is None


def test_what_spark_prints_once_it_runs_is_read() -> None:
    output = StartupOutput()

    output.read(io.StringIO(REFUSED))
    assert output.problems.latest is None
    output.is_over = True
    output.read(io.StringIO("".join(KILLED)))

    assert output.problems.latest
    assert output.problems.latest.reason == "OutOfMemory"
