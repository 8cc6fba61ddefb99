"""``python -m tests.rights``: removes each right in turn, and expects a scenario to need it."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.kube.cluster import ControlPlane
from tests.rights.grants import single, without
from tests.rights.stories import STORIES, Denied, Story, play
from tests.support.kubernetes.api_audit_log import Right
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.groups import install

STATE = Path(".state/rights")


def check(cluster: Cluster, only: str, workers: int) -> bool:
    """Whether every right is needed; prints a line for each."""
    install(cluster)
    with ThreadPoolExecutor(workers) as pool:
        used = dict(
            zip(STORIES, pool.map(lambda story: _used_rights(cluster, story), STORIES), strict=True)
        )
        granted = {
            (story.account, right): story.rules
            for story in STORIES
            for right in single(story.rules)
        }
        chosen = [(account, right) for account, right in granted if only in str(right)]
        # The scenarios that use a right come first, because they are denied soonest.
        by_use = [
            sorted((s for s in STORIES if s.account == account), key=lambda s: right not in used[s])
            for account, right in chosen
        ]
        return all(
            list(
                pool.map(lambda right, stories: _needed(cluster, right[1], stories), chosen, by_use)
            )
        )


def _used_rights(cluster: Cluster, story: Story) -> set[Right]:
    """Return the rights that a scenario uses when it has all of them."""
    began = time.monotonic()
    used = play(cluster, story, story.rules)
    print(
        f"{story.run.__name__:10} with all rights passes {time.monotonic() - began:8.1f} s",
        flush=True,
    )
    return used


def _needed(cluster: Cluster, right: Right, stories: Sequence[Story]) -> bool:
    """Whether a request in one of the scenarios is denied without this right."""
    account = stories[0].account
    for story in stories:
        try:
            play(cluster, story, without(story.rules, right))
        except Denied as denied:
            if right.verb in str(denied) and right.resource in str(denied):
                print(
                    f"{account:18} without {right!s:45} {story.run.__name__:10} is denied:"
                    f" {denied.right}",
                    flush=True,
                )
                return True
            raise
    print(f"{account:18} without {right!s:45} NOTHING IS DENIED", flush=True)
    return False


def main() -> int:
    """Check every right; the exit code is 1 if one is not needed."""
    parser = argparse.ArgumentParser(prog="python -m tests.rights", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        help="check only rights whose name contains this, such as 'patch' or 'pods'",
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="scenarios that run at the same time (default: 2)"
    )
    arguments = parser.parse_args()
    plane = ControlPlane(STATE)
    kubeconfig = plane.up().kubeconfig
    assert kubeconfig
    try:
        return 0 if check(Cluster(Path(kubeconfig)), arguments.only, arguments.workers) else 1
    finally:
        plane.down(purge=True)


if __name__ == "__main__":
    sys.exit(main())
