"""The example ``examples/secor-takeover``, followed as its page says with names of a test's own."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kafka.broker import Broker
from tests.support.pages.markdown import DOCS, ROOT, code
from tests.support.stores.s3 import Bucket

EXAMPLE = ROOT / "examples/secor-takeover"
PAGE = DOCS / "start/secor.md"
left_by_secor: Any = importlib.import_module("examples.secor-takeover.left_by_secor")
TOPIC, BUCKET = left_by_secor.TOPIC, left_by_secor.BUCKET


@dataclass(frozen=True)
class Takeover:
    """Follows the page.

    Attributes:
        kafka: where the topic is.
        bucket: what Secor uploaded to.
        folder: a copy of the example.
        topic: its name in this test.
        env: the variables of its commands.
    """

    kafka: Broker
    bucket: Bucket
    folder: Path
    topic: str
    env: Mapping[str, str]

    @classmethod
    def prepared(cls, kafka: Broker, bucket: Bucket, folder: Path, topic: str) -> "Takeover":
        """A copy of the example, with what Secor leaves in place."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {"PATH": path, "LANDFALL_KAFKA": str(kafka), "LANDFALL_S3": bucket.server.endpoint}
        made = cls(kafka, bucket, folder, topic, {**os.environ, **bucket.server.env, **given})
        for file in EXAMPLE.iterdir():
            if file.suffix == ".properties":
                (folder / file.name).write_text(made.ours(file.read_text()))
            elif file.is_file():
                shutil.copy(file, folder)
        program = [sys.executable, "left_by_secor.py", str(kafka), bucket.server.endpoint]
        subprocess.run([*program, bucket.name, topic], cwd=folder, env=made.env, check=True)
        return made

    def type(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints with the page's names."""
        done = subprocess.run(
            ["bash", "-c", self.ours(command)],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, self.theirs(done.stdout + done.stderr)

    def ours(self, text: str) -> str:
        """A text of the page or the example with the test's names."""
        prefix = self.topic.partition(".")[0]
        text = re.sub(r"\bshop(?=[.\\])", prefix, text)
        return text.replace(BUCKET, self.bucket.name)

    def theirs(self, text: str) -> str:
        """What is printed, with the names of the page."""
        text = text.replace(self.topic.partition(".")[0], "shop").replace(self.bucket.name, BUCKET)
        text = text.replace(self.bucket.server.endpoint, "http://127.0.0.1:9000")
        return text.replace(str(self.kafka), "127.0.0.1:9092")


def shown() -> Iterator[tuple[str, str]]:
    """Commands in the page, with what it shows of each."""
    for block in code(PAGE, "console"):
        for part in block.text.removeprefix("$ ").split("\n$ "):
            command, _, printed = part.partition("\n")
            yield command, printed


def without_times(text: str) -> list[str]:
    """The lines, without what differs from one run to the next."""
    text = re.sub(r"\d+(\.\d+)? [kM]?B(/s)?|^\d\d:\d\d:\d\d ", "N ", text, flags=re.MULTILINE)
    text = re.sub(r"\d+ commits?\b", "N commits", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
