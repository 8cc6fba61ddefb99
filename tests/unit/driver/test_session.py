import logging

import pytest

from landfall.api.contract import EXECUTORS
from landfall.driver.spark.gateway_jvm import LOG4J
from landfall.driver.spark.jvm import quiet_py4j
from landfall.driver.spark.session import SchedulerPools
from landfall.driver.spark.settings import executor_count


def test_sparks_log_configuration_is_in_the_package() -> None:
    assert LOG4J.is_file()


def test_py4js_log_records_are_dropped_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    quiet_py4j()
    root = logging.getLogger()

    for path in ("site-packages/py4j/java_gateway.py", "landfall/driver/process/loop.py"):
        root.handle(logging.LogRecord("root", logging.ERROR, path, 1, path, None, None))

    assert caplog.messages == ["landfall/driver/process/loop.py"]


def test_scheduler_pools_are_used_by_one_job_at_a_time_and_again() -> None:
    pools = SchedulerPools()

    with pools.own() as first, pools.own() as second:
        assert first != second
    with pools.own() as again:
        assert again == first


@pytest.mark.parametrize(
    ("environment", "setting"),
    [
        ({EXECUTORS: "7"}, {"spark.executor.instances": "7"}),
        ({EXECUTORS: "0"}, {"spark.executor.instances": "0"}),
        ({EXECUTORS: ""}, {}),
        ({}, {}),
    ],
)
def test_the_environment_has_the_executor_count_to_start_with(
    environment: dict[str, str], setting: dict[str, str]
) -> None:
    assert executor_count(environment) == setting
