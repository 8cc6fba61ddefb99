"""A taker of files as a process, which tests kill: it takes, reads, and says what became of them.

    python -m tests.support.files.file_taker GROUP.yaml LOG LEASE_SECONDS LIMIT [ADDRESS TOKEN]

``ADDRESS`` is a file with the URL of the driver to ask, which may change. The log has a line for
each lease that it got, and one for files of which a driver has accepted that they are done, with
the ids in their rows.
"""

import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import uuid4

import boto3
import yaml
from botocore.exceptions import ClientError
from mypy_boto3_s3 import S3Client

from landfall.api.verbs import (
    Answer,
    FilesDoneRequest,
    FilesFailedRequest,
    LeaseAnswer,
    LeasedFile,
    LeaseRequest,
    Outcome,
    TakeFilesRequest,
)
from landfall.cli.decide.driver_control import DriverControl
from landfall.cli.decide.verb import lane_session
from landfall.errors import LandfallError
from tests.support.files.feed_scene import TOPIC

Ask = Callable[[LeaseRequest], Answer]


def main() -> None:
    """Take files for ever."""
    group, log, seconds, limit, *driver = sys.argv[1:]
    ask = _driver(*driver) if driver else _session(Path(group))
    taker = Taker(ask, _s3(Path(group)), Path(log))
    while True:
        taker.take(int(limit), int(seconds))


@dataclass(frozen=True)
class Taker:
    """Takes files, and reads them.

    Attributes:
        ask: whoever records leases.
        s3: where the files are.
        log: what it writes to.
    """

    ask: Ask
    s3: S3Client
    log: Path

    @property
    def _who(self) -> str:
        return f"taker-{os.getpid()}"

    def take(self, limit: int, seconds: int) -> None:
        """Take some files, read them, and say of each whether it is done or failed."""
        take = TakeFilesRequest(
            who=self._who, id=uuid4().hex, topic=TOPIC, limit=limit, lease_seconds=seconds
        )
        taken = until_answered(self.ask, take)
        if not isinstance(taken, LeaseAnswer) or taken.lease is None:
            time.sleep(0.2)
            return
        self._write({"taken": [file.name for file in taken.files], "lease": taken.lease})
        time.sleep(Random(taken.lease).random() / 5)
        read, failed = self._read_all(taken.files)
        for number, why in failed.items():
            self._says(FilesFailedRequest, taken.lease, (number,), why)
        if read and self._says(FilesDoneRequest, taken.lease, (*read,), "read") is Outcome.DONE:
            done = [(file.name, file.etag, ids) for file, ids in read.values()]
            self._write({"done": [name for name, _, _ in done], "read": done, "lease": taken.lease})

    def _read_all(
        self, files: tuple[LeasedFile, ...]
    ) -> tuple[dict[int, tuple[LeasedFile, list[int]]], dict[int, str]]:
        read: dict[int, tuple[LeasedFile, list[int]]] = {}
        failed: dict[int, str] = {}
        for file in files:
            try:
                read[file.number] = file, self._ids(file)
            except (ClientError, ValueError, OSError) as error:
                failed[file.number] = str(error)
        return read, failed

    def _ids(self, file: LeasedFile) -> list[int]:
        """The ids in the version of a file that was taken."""
        bucket, _, key = file.url.removeprefix("s3://").partition("/")
        found = self.s3.get_object(Bucket=bucket, Key=key, IfMatch=f'"{file.etag}"')
        body = found["Body"].read()
        lines = gzip.decompress(body) if file.name.endswith(".gz") else body
        return [json.loads(line)["id"] for line in lines.splitlines()]

    def _says(
        self,
        kind: type[FilesDoneRequest | FilesFailedRequest],
        lease: int,
        numbers: tuple[int, ...],
        why: str,
    ) -> Outcome:
        request = kind(who=self._who, id=uuid4().hex, lease=lease, numbers=numbers, why=why)
        return until_answered(self.ask, request).outcome

    def _write(self, line: dict[str, object]) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def until_answered(ask: Ask, request: LeaseRequest) -> Answer:
    """The answer to a request, which is asked again under the same id until there is one."""
    while True:
        try:
            answer = ask(request)
        except LandfallError:
            time.sleep(0.2)
            continue
        if answer.outcome not in {Outcome.FAILED, Outcome.WAITING}:
            return answer
        time.sleep(0.2)


def _driver(address: str, token: str) -> Ask:
    def ask(request: LeaseRequest) -> Answer:
        return DriverControl(Path(address).read_text(), token).ask(request)

    return ask


def _session(group: Path) -> Ask:
    def ask(request: LeaseRequest) -> Answer:
        with lane_session(group) as session:
            return session.carry_out(request, take_over=False)

    return ask


def _s3(group: Path) -> S3Client:
    (feed,) = yaml.safe_load(group.read_text())["spec"]["source"]["files"]
    return boto3.client("s3", endpoint_url=feed["s3"]["endpoint"])


if __name__ == "__main__":
    main()
