"""One cluster with the operator for the session; for each test a group of its own.

Each group has a namespace and a bucket of its own.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.servers.cache import MissingTool
from dev.tour.place import TourPlace
from tests.conftest import SESSION, STACK, stop_servers
from tests.support.kubernetes.live_group import LiveGroup
from tests.support.kubernetes.stack import Stack


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the cluster after the last test on it: an idle node takes a tenth of a core.

    Called last, because the test's own fixtures use the cluster until they are torn down.
    """
    if nextitem and _needs_node(item) and not _needs_node(nextitem):
        stop_servers(Path(os.environ[SESSION]) / STACK)


def _needs_node(item: pytest.Item) -> bool:
    group = item.get_closest_marker("xdist_group")
    return group is not None and group.args[0] == "node"


@pytest.fixture(scope="session")
def stack() -> Stack:
    """A cluster, Kafka and S3 with the operator installed; skips where no node can run."""
    place = TourPlace(Path(os.environ[SESSION]) / STACK)
    try:
        place.check()
    except MissingTool as missing:
        pytest.skip(str(missing))
    return Stack.at(place)


@pytest.fixture
def groups(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], LiveGroup]]:
    """Creates groups that are not applied yet, and removes them after the test."""
    for name, value in stack.s3.env.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    with ExitStack() as created:
        yield lambda: created.enter_context(stack.group())


@pytest.fixture
def group(groups: Callable[[], LiveGroup]) -> LiveGroup:
    """A group that is not applied yet."""
    return groups()


@pytest.fixture
def topic(group: LiveGroup) -> str:
    """A topic of the group with some events."""
    return group.topic()
