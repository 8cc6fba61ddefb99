"""The health checks for Argo CD in ``docs/guides/gitops.md``, run on groups and Backfills."""

from pathlib import Path
from typing import Any

import lupa.lua51 as lua
import pytest
import yaml

from tests.support.operator.waiting_tools import NAMES, STATES, State

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "gitops.md").read_text()
SCRIPTS: dict[str, str] = {
    name.rpartition("_")[2]: script
    for name, script in yaml.safe_load(PAGE.partition("```yml\n")[2].partition("```")[0])[
        "data"
    ].items()
}


def health(resource: dict[str, Any]) -> str:
    """What Argo CD shows: its script gets the object as ``obj``, and returns status and message."""
    runtime = lua.LuaRuntime()
    runtime.globals().obj = runtime.table_from(resource, recursive=True)
    result = runtime.execute(SCRIPTS[resource["kind"]])
    assert isinstance(result.message, str | None)
    return str(result.status)


@pytest.mark.parametrize("state", STATES, ids=NAMES)
def test_argo_cd_shows_what_is_so(state: State) -> None:
    assert health(state.made()) == state.argo


@pytest.mark.parametrize(
    "state", [each for each in STATES if each.deployed], ids=lambda state: state.name
)
def test_deployed_says_whether_the_spec_is_in_force(state: State) -> None:
    conditions = state.made()["status"]["conditions"]

    assert [c["status"] for c in conditions if c["type"] == "Deployed"] == [state.deployed]
