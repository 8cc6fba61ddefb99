"""A namespace that cannot be watched is dropped alone, and comes back."""

import asyncio

import pytest

from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.objects import rbac
from landfall_operator.objects.names import FINALIZER
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime import namespaces as module
from landfall_operator.runtime.kube_client import (
    KINDS,
    KubeRequest,
    Page,
    RequestRejected,
    Unavailable,
)
from landfall_operator.runtime.namespaces import Labelled, Namespaces
from tests.support.operator.api_objects import KEY, resource
from tests.support.operator.fake_api import FakeApi

pytestmark = pytest.mark.asyncio

LOST, KEPT = KEY[0], "kept"
DELETED = {"deletionTimestamp": "2026-11-21T12:00:00Z"}


class Site:
    """Two configured namespaces; a group runs in the one whose rights the test takes."""

    def __init__(self) -> None:
        """The operator has all rights, and has listed the group."""
        self.api, self.cache = FakeApi(), ObjectCache()
        self.api.before = self._answer
        self.refused: set[str] = set()
        self.error: Exception | None = None
        self.woken: list[Key] = []
        self.path = KINDS[GROUP].path(*KEY)
        self.change_group()
        self.namespaces = Namespaces(self.api, self.forget, (LOST, KEPT), 0.0)

    def forget(self, namespace: str) -> None:
        self.woken.extend(self.cache.forget(namespace))

    def change_group(self, **metadata: object) -> None:
        finalizers = {"finalizers": [FINALIZER, "theirs"]}
        self.cache.put(GROUP, self.api.store(self.path, resource(**{**finalizers, **metadata})))

    def take_rights(self, *, also_finalizers: bool = False) -> None:
        """Take the rights in the namespace, as its deletion does."""
        self.refused = set(KINDS) if also_finalizers else set(KINDS) - {GROUP}

    @property
    def finalizers(self) -> list[str]:
        found: list[str] = self.api.objects[self.path]["metadata"]["finalizers"]
        return found

    def _answer(self, request: KubeRequest) -> None:
        if self.error:
            raise self.error
        if f"/namespaces/{LOST}/" in request.path and request.kind.name in self.refused:
            raise RequestRejected(f"{request.verb} {request.path}: 403 forbidden", 403)


@pytest.fixture
def site() -> Site:
    return Site()


async def test_a_namespace_without_rights_is_dropped_and_the_others_stay(site: Site) -> None:
    assert not await site.namespaces.check()
    assert site.namespaces.watched == (LOST, KEPT)

    site.take_rights()

    assert await site.namespaces.check()
    assert (site.namespaces.watched, site.namespaces.problem) == ((KEPT,), "")
    assert "403 forbidden" in site.namespaces.dropped[LOST]
    assert (list(site.cache.groups), site.woken) == ([], [KEY])


async def test_a_namespace_comes_back_with_all_of_its_rights(site: Site) -> None:
    await site.namespaces.check()
    site.take_rights()
    await site.namespaces.check()

    site.refused = {"NetworkPolicy"}
    assert not await site.namespaces.check()
    site.refused = set()

    assert await site.namespaces.check()
    assert (site.namespaces.watched, site.namespaces.dropped) == ((LOST, KEPT), {})


async def test_an_api_server_that_does_not_answer_costs_no_namespace(site: Site) -> None:
    site.error = Unavailable("no answer")

    assert not await site.namespaces.check()
    assert site.namespaces.watched == (LOST, KEPT)
    assert list(site.cache.groups) == [KEY]


async def test_only_deleted_groups_of_a_dropped_namespace_lose_their_finalizer(site: Site) -> None:
    site.change_group(**DELETED)
    await site.namespaces.check()
    assert FINALIZER in site.finalizers  # its drivers drain first

    site.take_rights()
    site.change_group()
    await site.namespaces.check()
    assert FINALIZER in site.finalizers

    site.change_group(**DELETED)
    await site.namespaces.check()
    assert site.finalizers == ["theirs"]


async def test_a_dropped_namespace_whose_groups_cannot_be_seen_ends_nothing(site: Site) -> None:
    site.change_group(**DELETED)
    site.take_rights(also_finalizers=True)

    assert await site.namespaces.check()
    assert site.namespaces.watched == (KEPT,)


class Watch:
    """Ends as the test says, one time after the other; the last one does not end."""

    def __init__(self, _: "Site | LabelledSite", *ends: Exception) -> None:
        self.ends = list(ends)
        self.begun: list[tuple[str, ...]] = []

    async def __call__(self, namespaces: tuple[str, ...], changed: asyncio.Event) -> None:
        self.begun.append(namespaces)
        if self.ends:
            raise self.ends.pop(0)
        await changed.wait()

    async def until(self, *begun: tuple[str, ...]) -> None:
        async with asyncio.timeout(60):
            while self.begun != list(begun):  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)


async def test_a_watch_that_ends_with_its_rights_goes_on_in_the_other_namespaces(
    site: Site,
) -> None:
    watch = Watch(site, RequestRejected("watch pods: 403 forbidden", 403))

    async def lost(namespaces: tuple[str, ...], changed: asyncio.Event) -> None:
        site.take_rights()
        await watch(namespaces, changed)

    running = asyncio.create_task(site.namespaces.watch(lost))

    await watch.until((LOST, KEPT), (KEPT,))
    assert not running.done()
    running.cancel()


async def test_a_watch_that_ends_for_no_lost_right_ends_the_operator(site: Site) -> None:
    watch = Watch(site, OSError("broken"))

    with pytest.raises(OSError, match="broken"):
        await asyncio.wait_for(site.namespaces.watch(watch), 60)


async def test_the_watch_begins_anew_when_a_namespace_goes_or_comes(site: Site) -> None:
    watch = Watch(site)
    running = asyncio.create_task(site.namespaces.watch(watch))
    checking = asyncio.create_task(site.namespaces.keep_checking())
    await watch.until((LOST, KEPT))

    site.take_rights()
    await watch.until((LOST, KEPT), (KEPT,))
    site.refused = set()

    await watch.until((LOST, KEPT), (KEPT,), (LOST, KEPT))
    running.cancel()
    checking.cancel()


async def test_an_operator_that_may_watch_nothing_waits_and_says_why(site: Site) -> None:
    only = Namespaces(site.api, site.forget, (LOST,), 0.0)
    site.take_rights()
    watch = Watch(site)
    running = asyncio.create_task(only.watch(watch))

    async with asyncio.timeout(60):
        while not only.problem:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)

    assert only.problem.startswith("no namespace can be watched: list /")
    assert watch.begun == []
    site.refused = set()
    await only.check()
    await watch.until((LOST,))
    running.cancel()


class LabelledSite:
    """Namespaces by their labels, the operator's RoleBindings, and a group in each namespace."""

    LABEL, ROLE, ACCOUNT = "landfall.dev/watch=true", "all-rights", rbac.Account("landfall", "me")

    def __init__(self) -> None:
        """One namespace has the label."""
        self.api = FakeApi()
        self.api.page = self._page  # type: ignore[method-assign]  # with label selectors
        self.api.create = self._create  # type: ignore[method-assign]
        self.api.delete = self._delete  # type: ignore[method-assign]
        self.with_label = {KEPT}
        self.bound: set[str] = set()
        self.forgotten: list[str] = []
        self.error: Exception | None = None
        labelled = Labelled(self.LABEL, self.ROLE, self.ACCOUNT)
        self.namespaces = Namespaces(self.api, self.forgotten.append, labelled, 0.0)

    def _page(self, kind: str, namespace: str | None, selector: str, rest: str = "") -> Page:
        if self.error:
            raise self.error
        if kind == "Namespace":
            assert selector == self.LABEL
            return Page([{"metadata": {"name": name}} for name in self.with_label], "1", "")
        if kind == "RoleBinding":
            metadata = {"name": self.ROLE, "uid": "u"}
            return Page(
                [{"metadata": {**metadata, "namespace": name}} for name in self.bound], "1", ""
            )
        assert (kind, namespace) == (GROUP, None)
        return Page([{"metadata": {"namespace": name}} for name in (KEPT, LOST)], "1", rest)

    def _create(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        assert manifest == rbac.namespace_binding(metadata["namespace"], self.ROLE, self.ACCOUNT)
        self.bound.add(metadata["namespace"])
        return manifest

    def _delete(self, kind: str, namespace: str, name: str, uid: str) -> Json:
        assert (kind, name, uid) == ("RoleBinding", self.ROLE, "u")
        self.bound.remove(namespace)
        return {}


@pytest.fixture
def labelled(monkeypatch: pytest.MonkeyPatch) -> LabelledSite:
    monkeypatch.setattr(module, "BINDING_SECONDS", 0.0)
    return LabelledSite()


async def test_the_operator_has_rights_where_the_label_is(labelled: LabelledSite) -> None:
    assert await labelled.namespaces.check()
    assert (labelled.namespaces.watched, labelled.bound) == ((KEPT,), {KEPT})

    labelled.with_label = {LOST}

    assert await labelled.namespaces.check()
    assert (labelled.namespaces.watched, labelled.bound) == ((LOST,), {LOST})
    assert labelled.forgotten == [KEPT]


async def test_rights_that_an_operator_left_are_taken_back(labelled: LabelledSite) -> None:
    labelled.bound = {"former"}

    await labelled.namespaces.check()

    assert labelled.bound == {KEPT}


async def test_without_a_label_anywhere_nothing_is_watched(labelled: LabelledSite) -> None:
    labelled.with_label = set()
    watch = Watch(labelled)
    running = asyncio.create_task(labelled.namespaces.watch(watch))
    await asyncio.sleep(0.1)

    assert (labelled.namespaces.is_idle, labelled.namespaces.problem) == (True, "")
    assert watch.begun == []  # to watch () would be to watch all
    labelled.with_label = {KEPT}
    await labelled.namespaces.check()
    await watch.until((KEPT,))
    running.cancel()


async def test_namespaces_of_kubernetes_are_left_alone(
    labelled: LabelledSite, caplog: pytest.LogCaptureFixture
) -> None:
    labelled.with_label = {KEPT, "kube-system"}

    await labelled.namespaces.check()

    assert (labelled.namespaces.watched, labelled.bound) == ((KEPT,), {KEPT})
    assert "namespace kube-system left alone" in caplog.text


async def test_an_api_server_that_lists_no_namespaces_costs_none(labelled: LabelledSite) -> None:
    await labelled.namespaces.check()
    labelled.error = Unavailable("no answer")

    assert not await labelled.namespaces.check()
    assert (labelled.namespaces.watched, labelled.bound) == ((KEPT,), {KEPT})


async def test_groups_without_the_label_are_counted_and_logged(
    labelled: LabelledSite, caplog: pytest.LogCaptureFixture
) -> None:
    await labelled.namespaces.check()

    assert labelled.namespaces.unwatched == {LOST: 1}
    assert f"does not manage: {LOST} (1)" in caplog.text
    labelled.with_label = {KEPT, LOST}
    await labelled.namespaces.check()
    assert labelled.namespaces.unwatched == {}
