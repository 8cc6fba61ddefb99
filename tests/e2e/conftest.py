"""One cluster with the operator on it for the session; for each test a group in a namespace and
over a bucket of its own.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.servers.cache import Missing
from dev.tour.place import Place
from tests.conftest import SESSION, STACK
from tests.support.live_group import LiveGroup
from tests.support.stack import Stack


@pytest.fixture(scope="session")
def stack() -> Stack:
    """Everything up and the operator installed; skipped, saying why, where this machine can run no
    node.
    """
    place = Place(Path(os.environ[SESSION]) / STACK)
    try:
        place.check()
    except Missing as missing:
        pytest.skip(str(missing))
    return Stack.at(place)


@pytest.fixture
def groups(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], LiveGroup]]:
    """Makes groups that nobody has applied yet; none outlives the test."""
    for name, value in stack.s3.env.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    with ExitStack() as made:
        yield lambda: made.enter_context(stack.group())


@pytest.fixture
def group(groups: Callable[[], LiveGroup]) -> LiveGroup:
    """One of them."""
    return groups()


@pytest.fixture
def topic(group: LiveGroup) -> str:
    """A topic of the group's, with some events."""
    return group.topic()
