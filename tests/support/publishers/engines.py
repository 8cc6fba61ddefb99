"""Query engines that know nothing of Landfall: see ``dev.tools.engines``."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.tools import engines

WORKER = Path(__file__).parent / "engine_worker.py"
Rows = list[dict[str, Any]]


class EngineError(Exception):
    """What an engine answered."""


@dataclass
class Engines:
    """A process that runs queries, one after the other."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls) -> "Engines":
        home = engines.home()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PY"))}
        environment |= {"TZ": "UTC", "PYSPARK_PYTHON": str(home / "venv/bin/python")}
        return cls(
            subprocess.Popen(
                [str(home / "venv/bin/python"), str(WORKER), str(home)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
        )

    def stop(self) -> None:
        """Let the process end, and Spark's JVM with it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)

    def ask(self, engine: str, query: str, session: str = "", **more: object) -> Rows:
        """Return the rows of a query.

        Raises:
            EngineError: the engine's own words.
        """
        assert self.process.stdin
        assert self.process.stdout
        request = {"engine": engine, "query": query, "session": session, **more}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: Mapping[str, Any] = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise EngineError(answer["error"])
        rows: Rows = answer["rows"]
        return rows
