"""What the benchmark lands with, and how it counts what was landed."""

import gzip
import io
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from landfall.api.spec import parse_group
from landfall.formats import Block
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import of_columns
from tests.bench import contenders
from tests.bench.contenders import CONTENDERS, Task
from tests.bench.peers import spark_install
from tests.bench.peers.json_zlib6 import JsonZlib6
from tests.support.stores.s3 import Bucket, S3Server

VALUES = [b'{"ts":%d,"text":"row %d"}' % (n, n * n) for n in range(500)]
BLOCK = Block(of_columns(TopicPartition("t", 0), np.arange(500), pa.array(VALUES, pa.binary())))


def test_the_zlib_format_writes_one_gzip_member_of_the_same_lines() -> None:
    format_ = JsonZlib6.of({})
    encoder = format_.encoder()

    body = encoder.encode(BLOCK) + encoder.encode(BLOCK) + encoder.finish()

    assert gzip.decompress(body) == b"".join(value + b"\n" for value in VALUES * 2)
    assert [row.value for row in format_.rows(io.BytesIO(body))] == VALUES * 2


def test_records_are_counted_in_gzip_objects_and_in_sequence_files() -> None:
    encoder = SequenceFileFormat.of({}).encoder()
    sequence_file = encoder.encode(BLOCK) + encoder.finish()

    assert contenders.count_sequence_file(io.BytesIO(sequence_file)) == 500
    assert (
        contenders.count_gzip_lines(io.BytesIO(gzip.compress(b"a\nb\n") + gzip.compress(b"c\n")))
        == 3
    )


def test_landfall_is_given_groups_that_it_takes(tmp_path: Path) -> None:
    bucket = Bucket(S3Server("http://127.0.0.1:1", {}), "bench")
    groups = [each for each in CONTENDERS if each.name.startswith("Landfall")]

    for contender in groups:
        command = contender.prepare(Task("127.0.0.1:2", "t250", bucket, tmp_path))

        group = parse_group(yaml.safe_load((tmp_path / "group.yaml").read_text()))
        assert group.spec.output.url == "s3://bench/out"
        assert command.argv[1:4] == ["run", str(tmp_path / "group.yaml"), "--until-caught-up"]
    assert len(groups) == 3


def test_a_contenders_own_records_are_not_data() -> None:
    is_data = {each.name: each.is_data for each in CONTENDERS}

    assert is_data["Landfall, SequenceFile"]("out/t250/dt=2025-11-21/1_0_00000000000000000000")
    assert not is_data["Landfall, SequenceFile"](
        "out/_landfall/bench/main/0000000001/0000000001.json"
    )
    assert is_data["Spark Structured Streaming"]("out/dt=2025-11-21/part-00000-c000.txt.gz")
    assert not is_data["Spark Structured Streaming"]("out/_spark_metadata/0")


def test_what_is_fetched_for_spark_is_pinned() -> None:
    packages = re.findall(r"^(\S+)==(\S+) \\$", spark_install.PACKAGES, re.MULTILINE)

    assert dict(packages)["pyspark"] == spark_install.VERSION
    assert spark_install.PACKAGES.count("--hash=sha256:") >= len(packages)
    assert all(
        re.fullmatch(r"[0-9]+(\.[0-9]+)+", version) for _, _, version, _ in spark_install._JARS
    )
