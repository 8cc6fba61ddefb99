"""Runs the scripts of an Argo WorkflowTemplate on this machine, each as a process.

It knows what the example needs: steps, ``withParam``, ``onExit``, parameters and scripts. What it
does not know it refuses, so that a template that runs here has no tag that Argo would not replace.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

_TAG = re.compile(r"{{(.*?)}}")


@dataclass(frozen=True)
class Ended:
    """A pod that has ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


@dataclass
class Workflow:
    """A run of a template.

    Attributes:
        spec: of the template.
        mounted: the folder that each volume's ConfigMap stands for.
        secrets: the value of each Secret's key, as ``name/key``.
        parameters: values of the workflow's parameters other than those in the template.
        lost: whether the pod of a step is lost before it begins, given the name of its template and
            its parameters.
        tags: what Argo puts in the place of each tag, as far as that is known by now.
        pods: those that have ended, by template.
    """

    spec: Mapping[str, Any]
    mounted: Mapping[str, Path]
    secrets: Mapping[str, str]
    parameters: Mapping[str, str] = field(default_factory=dict)
    lost: Callable[[str, Mapping[str, str]], bool] = lambda *_: False
    tags: dict[str, str] = field(default_factory=dict)
    pods: dict[str, list[Ended]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tags |= {"workflow.uid": str(uuid4()), "workflow.name": "hits-files-1795237200"}
        for each in self.spec["arguments"]["parameters"]:
            value = self.parameters.get(each["name"], each["value"])
            self.tags[f"workflow.parameters.{each['name']}"] = value

    def run(self) -> None:
        """Run the steps of the entrypoint, and then ``onExit``."""
        self._steps(self.template(self.spec["entrypoint"]))
        self.script(self.spec["onExit"], {})

    def template(self, name: str) -> Mapping[str, Any]:
        (found,) = (each for each in self.spec["templates"] if each["name"] == name)
        return found  # type: ignore[no-any-return]

    def _steps(self, template: Mapping[str, Any]) -> None:
        for (step,) in template["steps"]:
            given = step.get("arguments", {}).get("parameters", [])
            for item in json.loads(self._filled(step.get("withParam", "[null]"), {})):
                tags = {"item": json.dumps(item)}
                values = {each["name"]: self._filled(each["value"], tags) for each in given}
                ended = self.script(step["template"], values)
                if "withParam" not in step:
                    assert ended.code == 0, ended
                    self.tags[f"steps.{step['name']}.outputs.result"] = ended.out.strip()

    def script(self, name: str, arguments: Mapping[str, str]) -> Ended:
        """Run the script of a template."""
        template = self.template(name)
        if self.lost(name, arguments):
            return Ended(-9, "", "")
        tags = {
            f"inputs.parameters.{each['name']}": arguments.get(each["name"])
            or self._filled(each["value"], {})
            for each in template.get("inputs", {}).get("parameters", [])
        }
        script = template["script"]
        assert script["command"] == ["python"]
        done = subprocess.run(
            [sys.executable, "-c", self._filled(script["source"], tags)],
            env={**os.environ, **dict(self._environment(script, tags))},
            capture_output=True,
            text=True,
            check=False,
        )
        self.pods.setdefault(name, []).append(Ended(done.returncode, done.stdout, done.stderr))
        return self.pods[name][-1]

    def _environment(
        self, script: Mapping[str, Any], tags: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        mounts = {each["mountPath"]: each["name"] for each in script["volumeMounts"]}
        volumes = {each["name"]: each["configMap"]["name"] for each in self.spec["volumes"]}
        for each in script["env"]:
            if "value" not in each:
                reference = each["valueFrom"]["secretKeyRef"]
                yield each["name"], self.secrets[f"{reference['name']}/{reference['key']}"]
            elif each["value"] in mounts:
                yield each["name"], str(self.mounted[volumes[mounts[each["value"]]]])
            else:
                yield each["name"], self._filled(each["value"], tags)

    def _filled(self, text: str, tags: Mapping[str, str]) -> str:
        """The text with what its tags stand for.

        Raises:
            KeyError: of a tag nothing is known.
        """
        return _TAG.sub(lambda found: {**self.tags, **tags}[found[1]], text)
