"""Dead letters in a bucket of their own, on a real server that enforces the rights of two keys."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import landfall
from dev.servers.server import Server, ServerKind
from landfall.api.contract import LANE, ExitCode
from landfall.cli import main
from landfall.driver.landing.dead_letter_expiry import ExpirySweep
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.store.measured import StoreCalls, measured
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Landing, Scene
from tests.support.stores.limited_users import (
    DRIVER,
    LimitedUser,
    access_of,
    documented_statements,
    grant_all,
    personal_data_policies,
    scene_of_driver,
)
from tests.support.stores.s3 import Bucket

pytestmark = pytest.mark.xdist_group("store_rights")

LETTERS = LimitedUser("letters", "secret-of-letters")


def rights() -> list[dict[str, Any]]:
    """What the pages say that a driver needs in both buckets."""
    return [*documented_statements(), *personal_data_policies()["Driver"]]


@pytest.fixture
def scene(
    kafka: Broker,
    own_server: Callable[[ServerKind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    """A bucket of ``DRIVER``; the other one is of ``LETTERS``."""
    scene = scene_of_driver(kafka, own_server, tmp_path, monkeypatch, LETTERS)
    LETTERS.write_secret(tmp_path / "letters")
    grant_all(scene.bucket, {DRIVER.name: rights()})
    return scene


@pytest.fixture
def letters(scene: Scene) -> Bucket:
    bucket = scene.bucket.server.create_bucket()
    grant_all(bucket, {LETTERS.name: rights()})
    return bucket


def spec(scene: Scene, letters: Bucket | None, **bad: Any) -> dict[str, Any]:
    access = access_of(scene.bucket)
    own = {**access, "credentialsSecretRef": {"name": "letters"}}
    place = {"url": letters.url, "s3": own} if letters else {}
    return {
        "output": {"s3": access},
        "decode": {"format": "Json"},
        "badRecords": {"maxRatio": "1", **place, **bad},
    }


def land(scene: Scene, **own: Any) -> None:
    assert Landing(scene.group(**own), None).start().end() is ExitCode.OK


def checks(scene: Scene, folder: Path, **own: Any) -> list[int]:
    file = str(scene.file(folder, **own))
    return [main([name, file]) for name in ("fsck", "verify", "audit")]


def test_each_bucket_is_read_and_written_by_its_own_key(
    scene: Scene, letters: Bucket, tmp_path: Path
) -> None:
    topic, own = scene.topic(), spec(scene, letters)
    scene.kafka.produce(topic, [*events(range(20)), b"no JSON"])

    land(scene, **own)

    group = scene.group(**own)
    (place,) = group.spec.bad_records.places
    (key,) = letters.keys("_landfall/scene/")
    assert key.startswith(f"_landfall/scene/dead-letters@{place.id}/{topic}/")
    assert not [each for each in scene.bucket.keys("") if "dead-letters" in each]
    assert checks(scene, tmp_path, **own) == [ExitCode.OK] * 3
    assert not DRIVER.can_read(letters, key)
    store = measured(open_stores(group.spec), [r.kind for r in group.spec.roots], StoreCalls())
    lane = Lane(store, "scene", LANE)
    assert ExpirySweep(store, lane).run(lane.read(), datetime.now(UTC)) == 1
    assert letters.keys("_landfall/scene/") == []
    assert checks(scene, tmp_path, **own) == [ExitCode.OK] * 3


def test_dead_letters_of_a_place_are_found_read_and_replayed(
    scene: Scene, letters: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, times = scene.topic(), {"field": "ts", "unit": "Milliseconds"}
    own = spec(scene, letters) | {"decode": {"format": "Json", "timestamp": times}}
    missing = b'{"id":%d,"p":0,"when":%d}'
    scene.kafka.produce(topic, [*events(range(20)), missing % (20, 1767225600000), b"no JSON"])
    land(scene, **own)
    (key,) = letters.keys("_landfall/scene/")
    file = str(scene.file(tmp_path, **own))
    by = ["--why", "mended", "--who", "kim"]

    assert main(["locate", file, topic, "0", "20"]) == ExitCode.OK
    assert f"{letters.url}/{key}" in capsys.readouterr().out
    for name in (key, f"{letters.url}/{key}"):
        assert main(["cat", file, name]) == ExitCode.OK
        assert len(capsys.readouterr().out.splitlines()) == 2
    scan = landfall.open(file).dead_letters()
    assert scan.urls() == [f"{letters.url}/{key}"]
    counted = ["sql", file, 'SELECT count(*), min("offset") AS first FROM dead_letters', "--csv"]
    assert main(counted) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == ["count_star(),first", "2,20"]
    assert main(["scan", file, "--topic", topic]) == ExitCode.OK

    times |= {"missing": "KafkaTimestamp"}
    own |= {"generation": 2, "decode": {"format": "Json", "timestamp": times}}
    file = str(scene.file(tmp_path, **own))
    replay = ["replay-dead-letters", file, topic, *by]
    assert main([*replay, "--dry-run"]) == ExitCode.OK
    assert main(replay) == ExitCode.OK
    assert main(replay) == ExitCode.REFUSED  # each dead letter once
    # What is bad again is in the place, too.
    assert [each for each in letters.keys("_landfall/scene/") if "/2_0_" in each]
    assert not [each for each in scene.bucket.keys("") if "dead-letters" in each]
    land(scene, **own)
    assert main(["fsck", file, "--deep"]) == ExitCode.OK
    assert main(["verify", file, "--kafka"]) == ExitCode.OK
    assert main(["scan", file, "--topic", topic]) == ExitCode.OK
    totals = scene.state().totals
    assert (totals.landed, totals.replayed, totals.dead_lettered) == (21, 2, 3)


def test_what_has_no_dead_letters_lands_while_their_bucket_refuses(
    scene: Scene, letters: Bucket, tmp_path: Path
) -> None:
    good, bad, own = scene.topic("good"), scene.topic("bad"), spec(scene, letters)
    land(scene, **own)  # whoever starts a ledger looks at what is in both buckets
    scene.kafka.produce(good, events(range(20)))
    scene.kafka.produce(bad, [*events(range(5)), b"no JSON"])
    grant_all(letters, {LETTERS.name: personal_data_policies()["Driver"]})
    landing = Landing(scene.group(**own), None).start()

    eventually(lambda: [key for key in scene.bucket.keys(f"{good}/") if key])
    failure = eventually(lambda: landing.statuses[-1].commits.last_failure)

    assert "spec.badRecords.url: " in failure.message
    assert "AccessDenied" in failure.message
    assert not scene.bucket.keys(f"{bad}/")
    grant_all(letters, {LETTERS.name: rights()})
    assert landing.end() is ExitCode.OK
    assert checks(scene, tmp_path, **own) == [ExitCode.OK] * 3


def test_letters_of_a_former_place_are_reached_if_it_is_named(
    scene: Scene, letters: Bucket, tmp_path: Path
) -> None:
    topic, own = scene.topic(), spec(scene, letters)
    scene.kafka.produce(topic, [*events(range(20)), b"no JSON"])
    land(scene, **own)
    scene.kafka.produce(topic, [b"no JSON, either"])
    unnamed = spec(scene, None)

    land(scene, **unnamed)

    assert scene.bucket.keys("_landfall/scene/dead-letters/")
    before = letters.keys()
    assert main(["fsck", str(scene.file(tmp_path, **unnamed))]) != ExitCode.OK
    assert main(["audit", str(scene.file(tmp_path, **unnamed))]) == ExitCode.UNCHECKED
    former = {"url": letters.url, "s3": own["badRecords"]["s3"]}
    named = spec(scene, None, formerPlaces=[former])
    assert checks(scene, tmp_path, **named) == [ExitCode.OK] * 3
    assert letters.keys() == before


def test_a_place_of_another_group_is_refused(scene: Scene, letters: Bucket, tmp_path: Path) -> None:
    scene.topic()
    letters.write("_landfall/owner.json", b'{"owner": "shop/other"}')

    code = main(["run", str(scene.file(tmp_path, **spec(scene, letters))), "--until-caught-up"])

    assert code == ExitCode.STALLED


def eventually(look: Callable[[], Any], patience: float = 60.0) -> Any:
    until = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.2)
    return found
