"""The programs that the whole-run benchmark compares, and how their objects are read back."""

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from landfall.formats.sequencefile import SequenceFileFormat
from tests.bench.peers import spark_install
from tests.support.stores.s3 import Bucket

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
PEERS = Path(__file__).parent / "peers"
_READ_BYTES = 2**20
_NOT_INHERITED = ("PYTHONPATH", "SPARK_HOME", "SPARK_CONF_DIR", "VIRTUAL_ENV")
BY_DATE = {
    "decode": {"format": "Json", "timestamp": {"field": "ts"}},
    "route": {"pattern": "dt={date}"},
}


@dataclass(frozen=True, slots=True)
class Task:
    """One topic to land: broker, topic, bucket, and a folder for temporary files."""

    bootstrap: str
    topic: str
    bucket: Bucket
    folder: Path


@dataclass(frozen=True, slots=True)
class Command:
    """What to run."""

    argv: list[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Contender:
    """A program that lands a topic, with its settings.

    Attributes:
        name: its row in the tables.
        says: what it runs, for the notes above the tables.
        prepare: the command for a task.
        is_data: whether a key of the bucket is a landed object, and no record of the contender's
            own.
        count: the records in one landed object.
    """

    name: str
    says: str
    prepare: Callable[[Task], Command]
    is_data: Callable[[str], bool]
    count: Callable[[BinaryIO], int]


def count_gzip_lines(stream: BinaryIO) -> int:
    """Lines of a gzip object; every contender ends each record with a line break."""
    with gzip.open(stream) as opened:
        return sum(block.count(b"\n") for block in iter(lambda: opened.read(_READ_BYTES), b""))


def count_sequence_file(stream: BinaryIO) -> int:
    """Rows of a SequenceFile."""
    return sum(1 for _ in SequenceFileFormat.of({}).rows(stream))


def landfall(
    name: str,
    says: str,
    spec: Mapping[str, Any],
    count: Callable[[BinaryIO], int],
    slots: int = 2,
) -> Contender:
    """``landfall run --until-caught-up`` of a group with this spec."""

    def prepare(task: Task) -> Command:
        output = {
            "url": f"{task.bucket.url}/out",
            "s3": {
                "endpoint": task.bucket.server.endpoint,
                "pathStyle": True,
                "region": "us-east-1",
            },
            **spec["output"],
        }
        group = {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": task.bucket.name},
            "spec": {
                **spec,
                "source": {
                    "kafka": {"bootstrapServers": task.bootstrap, "topicPattern": task.topic}
                },
                "output": output,
            },
        }
        file = task.folder / "group.yaml"
        file.write_text(json.dumps(group))  # JSON is YAML
        options = ["--until-caught-up", "--master", f"local[{slots}]", "--http-port", "0"]
        # The benchmark's own format is found on Python's path.
        env = {**os.environ, **task.bucket.server.env, "PYTHONPATH": str(ROOT)}
        # Users' Python keeps what it has compiled; some machines of developers forbid that.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        return Command([str(BIN / "landfall"), "run", str(file), *options], env)

    return Contender(name, says, prepare, lambda key: not key.startswith("out/_landfall/"), count)


def structured_streaming(name: str, says: str, settings: Iterable[str]) -> Contender:
    """``peers/structured_streaming.py`` with these settings, in its own virtual environment."""

    def prepare(task: Task) -> Command:
        installed = spark_install.install(BIN / "uv", Path(sys.executable))
        where = f"s3a://{task.bucket.name}"
        options = {
            "--bootstrap": task.bootstrap,
            "--topic": task.topic,
            "--endpoint": task.bucket.server.endpoint,
            "--output": f"{where}/out",
            "--checkpoint": f"{where}/checkpoint",
            "--jars": ",".join(map(str, installed.jars)),
        }
        argv = [str(installed.python), str(PEERS / "structured_streaming.py")]
        for option in (*options.items(), *(("--conf", setting) for setting in settings)):
            argv += option
        env = {**os.environ, **task.bucket.server.env, "PYSPARK_PYTHON": str(installed.python)}
        for inherited in (*_NOT_INHERITED, "PYTHONDONTWRITEBYTECODE"):
            env.pop(inherited, None)
        return Command(argv, env)

    def is_data(key: str) -> bool:
        return key.startswith("out/dt=")

    return Contender(name, says, prepare, is_data, count_gzip_lines)


def floor(name: str, says: str) -> Contender:
    """``peers/floor.py``, by the Python that runs Landfall."""

    def prepare(task: Task) -> Command:
        server = task.bucket.server
        options = {
            "--bootstrap": task.bootstrap,
            "--topic": task.topic,
            "--endpoint": server.endpoint,
            "--bucket": task.bucket.name,
        }
        argv = [str(BIN / "python"), str(PEERS / "floor.py")]
        for option in options.items():
            argv += option
        env = {**os.environ, **server.env}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        return Command(argv, env)

    return Contender(name, says, prepare, lambda _: True, count_gzip_lines)


FLOOR = "floor"
"""The contender whose speed is the least that Landfall should reach."""
REFERENCE = "Spark Structured Streaming"
"""The contender that the others are compared with."""
SEQUENCE_FILE = landfall(
    "Landfall, SequenceFile",
    "payloads as they are, blocks deflated by ISA-L at level 2, by the date of Kafka's "
    "timestamp (the README's format)",
    {"output": {"format": "SequenceFile"}},
    count_sequence_file,
)
CONTENDERS = (
    floor(
        FLOOR,
        "one Python process without Spark, exactly once for nobody: batches of librdkafka, the "
        "date of `ts` by msgspec, gzip by ISA-L at level 1",
    ),
    SEQUENCE_FILE,
    landfall(
        "Landfall, JSON, gzip by ISA-L",
        "every payload checked to be JSON, by the date of its field `ts`, gzip by ISA-L at level 2 "
        "(the format's default)",
        {**BY_DATE, "output": {"format": "Json", "codec": "Gzip"}},
        count_gzip_lines,
    ),
    landfall(
        "Landfall, JSON, gzip by zlib",
        "like JSON, gzip by ISA-L, but by zlib at level 6, as the peers compress",
        {**BY_DATE, "output": {"format": "tests.bench.peers.json_zlib6:JsonZlib6"}},
        count_gzip_lines,
    ),
    structured_streaming(
        REFERENCE,
        "Kafka source, `get_json_object` for the date, text sink with `partitionBy`, gzip by "
        "Java's zlib at level 6, everything else at Spark's defaults",
        (),
    ),
    structured_streaming(
        f"{REFERENCE}, tuned",
        f"like {REFERENCE}, but with zlib at level 1 and without the sort by date "
        "(`spark.sql.maxConcurrentOutputFileWriters=16`)",
        (
            "spark.hadoop.zlib.compress.level=BEST_SPEED",
            "spark.sql.maxConcurrentOutputFileWriters=16",
        ),
    ),
)
