"""What reaches Spark, its JVMs and its workers."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from landfall.api.spec import parse_group
from landfall.driver.spark.direct_start import jvm_flags
from landfall.driver.spark.fork_server import VARIABLE
from landfall.driver.spark.gateway_jvm import JVM
from landfall.driver.spark.malloc import MALLOC
from landfall.driver.spark.settings import spark_settings
from landfall.native import VARIABLE as NATIVE
from tests.support.landing.spark_archive import GROUP

SMALL = {"-XX:NewSize=24m", "-XX:MaxNewSize=24m", "-XX:ArchiveRelocationMode=0"}
FREED = """
import ctypes, sys
from pathlib import Path
from landfall.driver.spark.malloc import tune_malloc

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
if sys.argv[1] == "tuned":
    tune_malloc({})
else:
    libc.mallopt(-3, 32 * 2**20)
    libc.mallopt(-1, 2**31 - 1)
blocks = (ctypes.c_void_p * 200)()
for at in range(200):
    blocks[at] = libc.malloc(2**20)
for block in blocks:
    ctypes.memset(block, 1, 2**20)
for block in blocks:
    libc.free(block)
print(resident())
"""


def test_jvms_keep_little_memory() -> None:
    settings = spark_settings(parse_group(GROUP), "local[2]", None, None)

    assert set(JVM.split()) >= SMALL
    for side in ("driver", "executor"):
        assert set(shlex.split(settings[f"spark.{side}.extraJavaOptions"])) >= SMALL
    assert "-Xms64m" in shlex.split(jvm_flags(None))


def test_executors_get_the_settings_of_the_allocator_and_the_hot_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NATIVE, "off")

    settings = spark_settings(parse_group(GROUP), None, None, None)

    assert settings[f"spark.executorEnv.{NATIVE}"] == "off"
    assert {f"spark.executorEnv.{name}": str(value) for name, value in MALLOC.items()}.items() <= (
        settings.items()
    )
    assert f"spark.executorEnv.{VARIABLE}" not in settings


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_a_tuned_process_gives_freed_memory_back() -> None:
    def resident(how: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", FREED, how], env=os.environ, capture_output=True, check=True
        )
        return int(done.stdout)

    assert resident("kept") - resident("tuned") > 100 * 2**20


def test_the_log_configuration_of_the_jvm_is_a_file() -> None:
    (option,) = [each for each in shlex.split(jvm_flags(None)) if "log4j2" in each]

    assert Path(option.partition("=")[2]).is_file()
