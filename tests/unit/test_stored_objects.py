"""docs/reference/bucket.md names all that is written into a bucket, and who deletes it."""

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.spec import parse_group
from landfall.api.verbs import Outcome, PromoteRequest, UndoRequest
from landfall.cli import main
from landfall.driver.process.lifecycle_rules import documents
from tests.support.driver.side_landing import NAME, BackfillScene
from tests.support.kubernetes.groups import document

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "bucket.md"
UNIT = "tests/unit/driver/"
ROWS: Mapping[str, tuple[str, str]] = {
    "`TOPIC/…`": (
        r"[^_/][^/]*/.*/[^/_][^/]*",
        UNIT + "test_replaced_grace_period.py::"
        "test_after_the_grace_period_old_objects_are_deleted_and_copies_are_kept",
    ),
    "`TOPIC/…/_SUCCESS`, `_LATE-…`": (r"[^_/][^/]*/.*/(_SUCCESS|_LATE-.*)", ""),
    "`TOPIC/_symlink_format_manifest/…`": (r"[^_/][^/]*/_symlink_format_manifest/.*", ""),
    "`_landfall/owner.json`, `_landfall/ledger.json`, `_landfall/output.json`": (
        r"_landfall/(owner|ledger|output)\.json",
        "",
    ),
    "`_landfall/GROUP/0/…`": (
        r"_landfall/GROUP/0/.*",
        UNIT + "test_segment_rolling.py::test_slots_are_deleted_only_after_a_later_snapshot",
    ),
    "`_landfall/GROUP/0-head.json`": (r"_landfall/GROUP/0-head\.json", ""),
    "`_landfall/GROUP/0-snapshots/…`": (
        r"_landfall/GROUP/0-snapshots/.*",
        UNIT + "test_segment_rolling.py::test_of_snapshots_only_the_last_few_stay",
    ),
    "`_landfall/GROUP/0-segments/…`": (r"_landfall/GROUP/0-segments/.*", ""),
    "`_landfall/GROUP/0-specs/…`, `0-schemas/…`": (r"_landfall/GROUP/0-(specs|schemas)/.*", ""),
    "`_landfall/GROUP/0-replaced/…`": (r"_landfall/GROUP/0-replaced/.*", ""),
    "`_landfall/GROUP/0-retired/…`": (
        r"_landfall/GROUP/0-retired/.*",
        UNIT + "test_replacements.py::test_copies_expire_and_with_them_the_way_back",
    ),
    "`_landfall/GROUP/0-expired/…`": (
        r"_landfall/GROUP/0-expired/.*",
        UNIT + "test_dead_letter_expiry.py::test_a_later_sweep_goes_on_where_the_one_before_ended",
    ),
    "`_landfall/GROUP/0-files/…`": (
        r"_landfall/GROUP/0-files/.*",
        "tests/unit/discovery/test_index.py::test_what_the_last_two_indexes_have_is_kept",
    ),
    "`_landfall/GROUP/0-published/…`": (r"_landfall/GROUP/0-published/.*", ""),
    "`_landfall/GROUP/dead-letters/…`, `dead-letters@…/…`": (
        r"_landfall/GROUP/dead-letters(@[0-9a-f]+)?/.*",
        UNIT + "test_dead_letter_expiry.py::test_old_dead_letters_are_deleted_and_nothing_else",
    ),
    "`_landfall/GROUP/side/NAME/…`": (
        r"_landfall/GROUP/side/[^/]+/.*",
        UNIT + "test_side_leftovers.py::"
        "test_all_but_the_mark_of_a_discarded_side_lane_goes_after_a_while",
    ),
    "`_landfall/_probe/…`": (
        r"_landfall/_probe/.*",
        "tests/unit/store/test_probe.py::test_a_probe_leaves_nothing",
    ),
    "incomplete uploads": (
        r"(?!)",
        UNIT + "test_side_leftovers.py::"
        "test_uploads_that_a_task_begins_after_discarding_are_aborted_by_the_live_driver",
    ),
    "`_landfall/_parts/…`": (r"_landfall/_parts/.*", ""),
    "`.landfall-staging/…`": (r"\.landfall-staging/.*", ""),
}
"""By the first cell of each row: its keys, and the test of its deletion if it is deleted."""


def test_the_table_has_these_rows_and_each_deletion_has_its_test() -> None:
    table = PAGE.read_text().partition("|---|")[2].partition("\n\n")[0]
    cells = [line.split(" | ") for line in table.splitlines()[1:]]

    assert [row[0].removeprefix("| ") for row in cells] == [*ROWS]
    for name, (_, test) in ROWS.items():
        path, _, function = test.partition("::")
        assert not test or f"def {function}" in (ROOT / path).read_text(), name


def row_of(key: str, group: str) -> str:
    """The row of a key; the most special one."""
    found = [
        name
        for name, (pattern, _) in ROWS.items()
        if re.fullmatch(pattern.replace("GROUP", re.escape(group)), key)
    ]
    assert found, f"{key}: docs/reference/bucket.md does not say who deletes it"
    return found[-1]


def test_all_that_a_group_and_its_backfill_write_is_in_the_table() -> None:
    by = {"who": "kim", "why": "INC-12"}
    scene = BackfillScene(slices=1).merge().land()
    driver = scene.start()
    driver.until_landed()
    answer = driver.contender.decide(PromoteRequest(**by, name=NAME))
    scene.until_done()
    assert answer.outcome is Outcome.DONE, answer
    slot = int(answer.message.partition("slot ")[2].partition(";")[0])
    assert driver.contender.decide(UndoRequest(**by, slot=slot)).outcome is Outcome.DONE
    scene.until_done()
    driver.stop()

    rows = {row_of(stat.key, scene.group.metadata.name) for stat in scene.store.list_after("")}

    assert {row.rpartition("/GROUP/")[2] for row in rows} >= {
        "`TOPIC/…`",
        "0/…`",
        "0-replaced/…`",
        "0-retired/…`",
        "side/NAME/…`",
    }
    assert not [*scene.store.open_uploads("")]


def test_a_start_of_a_driver_leaves_slots_and_nothing_else() -> None:
    """An hourly schedule starts 8,760 drivers a year."""
    scene = BackfillScene()
    group = scene.group.metadata.name

    def others() -> set[str]:
        keys = (stat.key for stat in scene.store.list_after(""))
        return {key for key in keys if not key.startswith(f"_landfall/{group}/0/")}

    start = scene.start("r3")
    start.until_landed()
    start.stop()
    before = others()
    for revision in ("r4", "r5", "r6"):
        again = scene.start(revision)
        again.until_landed()
        again.stop()

    assert others() == before


def group_file(folder: Path, **spec: object) -> Path:
    file = folder / "group.yaml"
    file.write_text(yaml.safe_dump(document("clicks", **spec)))
    return file


def test_the_page_shows_the_rules_that_check_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = group_file(tmp_path, output__url="s3://logs/parsed")

    assert main(["check", str(file), "--lifecycle"]) == ExitCode.OK

    shown = PAGE.read_text().partition("--lifecycle\n")[2].partition("```")[0]
    assert json.loads(capsys.readouterr().out) == json.loads(shown)


def test_rules_leave_more_time_than_a_driver_does_and_concern_every_bucket() -> None:
    group = parse_group(
        document(
            "clicks",
            output__url="gs://logs/a",
            ledger={"url": "s3://ledgers/a"},
            badRecords={"url": "s3://letters"},
            tuning={"retainReplaced": "30h"},
        )
    )

    found = documents(group)

    assert [*found] == ["gs://logs", "s3://letters", "s3://ledgers"]
    ages = [
        (r["condition"]["matchesPrefix"], r["condition"]["age"]) for r in found["gs://logs"]["rule"]
    ]
    assert ages == [
        (["a/_landfall/_parts/"], 30),
        (["a/_landfall/clicks/0-retired/"], 3),
        (["a/_landfall/_probe/"], 1),
    ]
    letters = found["s3://letters"]["Rules"]
    assert [rule["Filter"]["Prefix"] for rule in letters] == [
        "",
        "_landfall/clicks/0-retired/",
        "_landfall/_probe/",
    ]
    assert len({rule["ID"] for rule in letters}) == 3
    assert [rule["Filter"]["Prefix"] for rule in found["s3://ledgers"]["Rules"]] == [
        "a/_landfall/_probe/"
    ]
    assert group.spec.tuning.retain_replaced < timedelta(days=3)


def test_where_a_store_has_no_rules_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = group_file(tmp_path, output__url=f"file://{tmp_path}")

    assert main(["check", str(file), "--lifecycle"]) == ExitCode.OK

    assert "no store of it has lifecycle rules" in capsys.readouterr().err
