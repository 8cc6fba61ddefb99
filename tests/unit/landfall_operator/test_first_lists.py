"""No group is reconciled before everything that it owns is in the cache."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.runtime import watcher
from landfall_operator.runtime.kube_client import KubeClient, RequestRejected, Unavailable
from landfall_operator.runtime.watcher import FirstLists
from tests.support.operator.api_objects import KEY, resource

pytestmark = pytest.mark.asyncio

OTHER = "elsewhere"


class Lists:
    """Stands for the API server: each list waits for its answer, or the error to raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.asked: list[tuple[str, ...]] = []
        self.woken: list[Key] = []
        self.cache = ObjectCache()
        monkeypatch.setattr(watcher, "resync", self._resync)
        monkeypatch.setattr(watcher, "RETRY_SECONDS", 0.0)
        monkeypatch.setattr(watcher, "REPEAT_SECONDS", 0.0)
        self.lists = FirstLists(cast("KubeClient", None), self.cache, self.woken.append)

    async def _resync(
        self, _: KubeClient, __: ObjectCache, namespaces: tuple[str, ...]
    ) -> set[Key]:
        self.asked.append(namespaces)
        if error := await self.answers.get():
            raise error
        self.cache.put(GROUP, resource())
        return set()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  # the condition is the test's own
            await asyncio.sleep(0)


@pytest.mark.parametrize("namespaces", [(), (KEY[0],)], ids=["cluster", "namespace"])
async def test_groups_are_woken_when_everything_is_listed(
    monkeypatch: pytest.MonkeyPatch, namespaces: tuple[str, ...]
) -> None:
    api = Lists(monkeypatch)
    listing = asyncio.create_task(api.lists.list(namespaces))
    await until(lambda: api.asked)

    api.lists.wake(KEY)  # as the watch does meanwhile
    api.answers.put_nowait(Unavailable("no answer"))
    await until(lambda: len(api.asked) == 2)
    assert (api.woken, api.lists.complete) == ([], False)

    api.answers.put_nowait(None)
    await until(lambda: api.lists.complete)
    assert api.woken == [KEY]
    api.lists.wake(KEY)
    assert api.woken == [KEY, KEY]
    listing.cancel()


async def test_what_was_deleted_before_the_watch_is_found_by_a_second_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Lists(monkeypatch)
    listing = asyncio.create_task(api.lists.list(()))
    for answer in (None, Unavailable("no answer"), None):
        api.answers.put_nowait(answer)

    await until(lambda: len(api.asked) == 3)
    for _ in range(10):
        await asyncio.sleep(0)

    assert len(api.asked) == 3
    assert not listing.done()
    listing.cancel()


async def test_only_a_namespace_that_comes_back_is_listed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Lists(monkeypatch)
    api.answers.put_nowait(None)
    listing = asyncio.create_task(api.lists.list((KEY[0], OTHER)))
    await until(lambda: api.lists.complete)
    listing.cancel()

    listing = asyncio.create_task(api.lists.list((OTHER,)))
    await until(lambda: api.lists.listed == {OTHER})
    api.woken.clear()
    api.lists.wake(KEY)
    assert api.woken == []
    listing.cancel()

    api.asked.clear()
    api.answers.put_nowait(None)
    listing = asyncio.create_task(api.lists.list((KEY[0], OTHER)))
    await until(lambda: api.woken)
    assert api.asked[0] == (KEY[0],)
    listing.cancel()


async def test_a_missing_right_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Lists(monkeypatch)
    api.answers.put_nowait(RequestRejected("pods is forbidden", 403))

    with pytest.raises(RequestRejected, match="forbidden"):
        await api.lists.list(())
