"""A resync beside watches that change the same objects."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest

from landfall_operator.core.cache import Key, ObjectCache
from landfall_operator.objects.manifests import config_map
from landfall_operator.runtime.kube_client import KubeClient, Page
from landfall_operator.runtime.watcher import resync
from tests.support.operator.api_objects import KEY, OWNER, resource, stored
from tests.support.operator.cluster_model import SITE, group

pytestmark = pytest.mark.asyncio


class GuardedCache(ObjectCache):
    """A cache that only the thread that made it may change."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.get_ident()

    def put(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        assert threading.get_ident() == self._owner
        return super().put(kind, body)

    def drop(self, kind: str, body: Mapping[str, Any]) -> Key | None:
        assert threading.get_ident() == self._owner
        return super().drop(kind, body)


class SlowLists:
    """Lists of an API server; each page waits in its thread until the test lets it through."""

    def __init__(self, pages: Mapping[str, list[Page]]) -> None:
        self.pages = {kind: list(pages) for kind, pages in pages.items()}
        self.asked: list[str] = []
        self.answered = threading.Semaphore(0)

    def page(self, kind: str, _namespace: str | None, _selector: str, rest: str) -> Page:
        assert self.answered.acquire(timeout=60)
        self.asked.append(f"{kind}/{rest}")
        pages = self.pages.get(kind)
        return pages.pop(0) if pages else Page([], "1", "")


def config(version: int, uid: str, image: str = "a") -> dict[str, Any]:
    return stored(config_map(OWNER, group(image), image, 1, SITE), version, uid)


async def resynced(cache: ObjectCache, lists: SlowLists) -> set[Key]:
    return await resync(cast(KubeClient, lists), cache, ("logs",))


async def test_a_list_changes_the_cache_on_the_event_loop_only() -> None:
    cache = GuardedCache()
    lists = SlowLists({"ConsumerGroup": [Page([resource(3)], "9", "")]})
    lists.answered.release(99)

    assert await resynced(cache, lists) == {KEY}


async def test_what_the_watch_brought_during_a_list_is_newer_than_the_list() -> None:
    cache = GuardedCache()
    cache.put("ConsumerGroup", resource(1))
    cache.put("ConfigMap", config(2, "gone"))
    lists = SlowLists(
        {
            "ConsumerGroup": [Page([resource(1)], "3", "")],
            "ConfigMap": [Page([config(2, "gone")], "3", "more"), Page([], "3", "")],
        }
    )
    running = asyncio.create_task(resynced(cache, lists))
    await asyncio.sleep(0.05)

    # The lists are of version 3; while they are under way, the watch brings what came after it.
    cache.put("ConsumerGroup", resource(7, generation=2))
    cache.drop("ConfigMap", config(6, "gone"))
    cache.put("ConfigMap", config(8, "new", "b"))
    lists.answered.release(99)
    changed = await running

    assert changed == set()
    assert cache.groups[KEY].generation == 2
    assert [cached.uid for cached in cache.owned(KEY).values()] == ["new"]


async def test_a_list_of_several_pages_is_compared_as_a_whole() -> None:
    cache = GuardedCache()
    cache.put("ConsumerGroup", resource(1))
    cache.put("ConfigMap", config(2, "first"))
    cache.put("ConfigMap", config(2, "second", "b"))
    cache.put("ConfigMap", config(2, "third", "c"))
    lists = SlowLists(
        {
            "ConsumerGroup": [Page([resource(1)], "9", "")],
            "ConfigMap": [
                Page([config(2, "first")], "9", "more"),
                Page([config(2, "second", "b")], "9", ""),
            ],
        }
    )
    lists.answered.release(99)

    assert await resynced(cache, lists) == {KEY}
    assert {cached.uid for cached in cache.owned(KEY).values()} == {"first", "second"}
    assert "ConfigMap/more" in lists.asked


async def test_groups_in_namespaces_of_kubernetes_are_left_alone() -> None:
    cache = GuardedCache()
    foreign = resource(3)
    foreign["metadata"] = {**foreign["metadata"], "namespace": "kube-system", "uid": "other"}
    lists = SlowLists({"ConsumerGroup": [Page([resource(3), foreign], "9", "")]})
    lists.answered.release(99)

    assert await resynced(cache, lists) == {KEY}
    assert list(cache.groups) == [KEY]
