"""What Python workers are forked from."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from landfall.api.spec import parse_group
from landfall.driver.spark.settings import CONF, preloaded
from landfall.driver.spark.worker_daemon import without_zips
from tests.support.landing.spark_archive import GROUP

PROGRAM = """
import os, sys
from pathlib import Path
from landfall.driver.spark.worker_daemon import preload
preload(["landfall.store.s3.store"])
print("landfall.task.worker" in sys.modules, "boto3" in sys.modules)
for thread in Path("/proc/self/task").iterdir():
    print((thread / "comm").read_text().strip())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_worker_shares_its_imports_and_they_start_no_thread_that_is_lost_in_a_fork() -> None:
    settings = {
        name.removeprefix("spark.executorEnv."): value
        for name, value in CONF.items()
        if name.startswith("spark.executorEnv.")
    }

    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )

    imported, *threads = run.stdout.splitlines()
    assert imported == "True True"
    # jemalloc's own thread is stopped and started by its handlers of forks.
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1


@pytest.mark.parametrize(
    ("url", "modules"),
    [("s3://bucket/landed", ["landfall.store.s3.store"]), ("file:///landed", [])],
)
def test_the_store_of_the_group_is_preloaded(url: str, modules: list[str]) -> None:
    group = parse_group({**GROUP, "spec": {**GROUP["spec"], "output": {"url": url}}})

    assert preloaded(group) == modules


def test_pyspark_is_read_from_its_package_and_not_from_its_zip() -> None:
    package = find_spec("pyspark")
    assert package
    assert package.origin
    spark = Path(package.origin).parent
    zips = [f"{spark}/python/lib/pyspark.zip", f"{spark}/python/lib/py4j-src.zip"]
    rest = ["/tasks.zip", "/spark/python/lib/pyspark.zip", str(spark.parent)]

    assert without_zips([*zips, *rest]) == rest
    assert without_zips(zips) == zips


def test_the_daemon_imports_no_pyspark_before_its_path_is_set() -> None:
    program = "import landfall.driver.spark.worker_daemon, sys; print('pyspark' in sys.modules)"

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert run.stdout == "False\n"
