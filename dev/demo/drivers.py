"""Landfall as a user runs it: from the command line, one process per group."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template

import yaml

from dev.demo.buckets import DemoBucket
from dev.demo.buckets.s3 import DemoS3Bucket

LANDFALL = str(Path(sys.executable).with_name("landfall"))
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "demo"


@dataclass(frozen=True)
class Group:
    """A group of the demo: its name, and its YAML file with the addresses filled in."""

    name: str
    file: Path


@dataclass(frozen=True)
class DemoDriver:
    """A ``landfall run`` process."""

    group: Group
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> int:
        """Send SIGKILL to the whole process group, as if a machine died; returns the process id."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self.process.pid

    def running(self) -> bool:
        """Return whether the process is still running.

        Raises:
            SystemExit: it failed; the message ends with the last lines of its log.
        """
        code = self.process.poll()
        if code:
            last_lines = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            raise SystemExit(
                f"landfall run {self.group.file} ended with exit code {code}; "
                f"the last lines of {self.log}:\n{last_lines}"
            )
        return code is None


def in_other_store(group: str, bucket: DemoBucket) -> str:
    """The YAML of a group that lands in ``bucket`` instead of S3, and publishes no tables."""
    document = yaml.safe_load(group)
    spec = document["spec"]
    del spec["output"]["s3"]
    spec["output"] |= {"url": bucket.url(document["metadata"]["name"]), **bucket.access()}
    if "publish" in spec:
        spec["publish"] = [
            publisher for publisher in spec["publish"] if publisher["type"] != "Iceberg"
        ]
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


@dataclass(frozen=True)
class Landfall:
    """Starts drivers and runs commands, all in one folder and with one environment."""

    folder: Path
    env: Mapping[str, str]

    def group(self, name: str, bucket: DemoBucket) -> Group:
        """Write the example's YAML with the addresses and the bucket filled in."""
        file = self.folder / f"{name}.yaml"
        values = {"BUCKET": getattr(bucket, "name", ""), "FOLDER": str(self.folder)}
        text = Template((EXAMPLES / file.name).read_text()).safe_substitute(self.env, **values)
        file.write_text(text if isinstance(bucket, DemoS3Bucket) else in_other_store(text, bucket))
        return Group(name, file)

    def save_secret(self, name: str, bucket: DemoBucket) -> None:
        """Save the bucket's Secret as files, which is how it is found outside Kubernetes."""
        folder = Path(self.env["LANDFALL_SECRETS"], name)
        folder.mkdir(parents=True, exist_ok=True)
        for key, value in bucket.secret().items():
            (folder / key).write_text(value)

    def run(self, group: Group) -> DemoDriver:
        """Start a driver in the background; it ends once it has caught up."""
        log = self.folder / f"{group.name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [LANDFALL, "run", str(group.file), "--until-caught-up"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        return DemoDriver(group, process, log)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another ``landfall`` command and return its exit code and output."""
        return subprocess.run(
            [LANDFALL, *arguments],
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
