"""The API of a real Airflow."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.request import Request, urlopen

from dev.servers.airflow import PASSWORD, USER


@dataclass(frozen=True)
class Api:
    """The API of an Airflow at an address."""

    address: str

    def ask(self, path: str, body: object = None, token: str = "") -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.address}{path}", data, headers)) as answer:
            return json.load(answer)

    def get(self, path: str, body: object = None) -> Any:
        """The answer to a GET, or with a body to a POST."""
        return self.ask(f"/api/v2/{path}", body, self._token)

    @cached_property
    def _token(self) -> str:
        login = self.ask("/auth/token", {"username": USER, "password": PASSWORD})
        return str(login["access_token"])

    def dags(self) -> list[str]:
        """The names of DAGs that could be read."""
        return [dag["dag_id"] for dag in self.get("dags")["dags"]]

    def start(self, dag: str) -> str:
        """Start a run of a DAG, and return its id."""
        run: str = self.get(f"dags/{dag}/dagRuns", {"logical_date": None})["dag_run_id"]
        return run

    def state(self, dag: str, run: str) -> str:
        """The state of a run."""
        state: str = self.get(f"dags/{dag}/dagRuns/{run}")["state"]
        return state

    def tasks(self, dag: str, run: str) -> list[tuple[str, str | None, int]]:
        """The name, the state and the number of tries of each task of a run, sorted."""
        found = self.get(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return sorted((each["task_id"], each["state"], each["try_number"]) for each in found)

    def runs(self, dag: str) -> list[tuple[str | None, str]]:
        """The partition key and the state of each run of a DAG, by key."""
        found = self.get(f"dags/{dag}/dagRuns")["dag_runs"]
        return sorted((run["partition_key"], run["state"]) for run in found)

    def events(self, topic: str) -> list[dict[str, Any]]:
        """The events of a topic's asset."""
        found: list[dict[str, Any]] = self.get("assets/events?order_by=timestamp")["asset_events"]
        return [each for each in found if each["uri"] == f"s3://logs/parsed/{topic}"]
