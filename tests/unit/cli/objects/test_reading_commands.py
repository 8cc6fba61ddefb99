import json
from collections.abc import Callable
from pathlib import Path

import pytest

from landfall import ledger
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.errors import Reason
from landfall.ledger.offsets import TopicPartition
from tests.support.ledger.sample_ledger import GROUP
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]
Captured = pytest.CaptureFixture[str]
CLICK = ("clicks", "0", "7")


@pytest.fixture(params=["Json", "SequenceFile"])
def made(request: pytest.FixtureRequest, landed: Make) -> Landed:
    made = landed(request.param)
    made.sample.commit(made.sample.land(TP, 10, 25)).applied()
    return made


def ran(capsys: Captured, *argv: str) -> tuple[int, str]:
    code = main(argv)
    return code, capsys.readouterr().out


def test_verify_finds_every_record_once(made: Landed, capsys: Captured) -> None:
    code, text = ran(capsys, "verify", made.file, "--json")
    report = json.loads(text)

    assert code == ExitCode.OK
    assert (report["whole"], report["expected"], report["found"], report["objects"]) == (
        True,
        25,
        25,
        2,
    )
    assert report["exact"] == (made.format.extension == ".seq")


def test_verify_counts_missing_records(made: Landed, capsys: Captured) -> None:
    made.object.write_bytes(made.body(range(8)))

    code, text = ran(capsys, "verify", made.file, "--partitions")

    assert code == ExitCode.FAULT
    assert "clicks/0" in text
    assert "NOT every record" in text
    assert json.loads(ran(capsys, "verify", made.file, "--json")[1])["missing"] == 2


@pytest.mark.parametrize("leaves", [False, True])
def test_verify_expects_no_object_that_was_given_up(
    landed: Make, capsys: Captured, leaves: bool
) -> None:
    sample = (made := landed("Json")).sample
    slice_ = sample.land(TP, 10, 25)
    sample.commit(slice_, complete=False)
    lost = slice_.objects[0]
    entry = ledger.Blocked(TP, Reason.OBJECT_LOST, "gone", slice_.piece.offsets)
    missing = ledger.Missing(3, (lost.upload.key,))
    sample.append(lambda h: ledger.Block(header=h, entries=(entry,), missing=(missing,)))
    if leaves:
        sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="gone"))
    else:
        sample.append(lambda h: ledger.Lost(header=h, commit=3, objects=(lost,)))
    sample.applied()

    code, text = ran(capsys, "verify", made.file, "--json")

    assert code == ExitCode.OK
    assert (json.loads(text)["expected"], json.loads(text)["found"]) == (10, 10)


def test_verify_names_a_missing_object(made: Landed, capsys: Captured) -> None:
    made.object.unlink()

    code, text = ran(capsys, "verify", made.file)

    assert code == ExitCode.FAULT
    assert f"{made.first.objects[0].upload.key}: missing" in text


def test_verify_skips_unapplied_commits_and_other_topics(landed: Make, capsys: Captured) -> None:
    made = landed("Json")
    made.sample.add(TopicPartition("orders", 0))
    made.sample.commit(made.sample.land(TP, 10, 25), complete=False)

    text = ran(capsys, "verify", made.file)[1]

    assert "1 COMMIT was not checked: not all objects are visible yet" in text
    assert "every record is there exactly once" in text
    assert json.loads(ran(capsys, "verify", made.file, "orders", "--json")[1])["expected"] == 0


def test_verify_checks_what_is_visible_though_no_record_confirms_it(
    landed: Make, capsys: Captured
) -> None:
    made = landed("Json")
    assert made.sample.state.unapplied

    code, text = ran(capsys, "verify", made.file, "--json")

    report = json.loads(text)
    assert (code, report["found"], report["unapplied_commits"]) == (ExitCode.OK, 10, 0)


def test_locate_names_object_and_row(made: Landed, capsys: Captured) -> None:
    code, text = ran(capsys, "locate", made.file, "clicks", "0", "12")

    assert code == ExitCode.OK
    assert "clicks/0 offset 12 was landed by the COMMIT in slot 3" in text
    assert f"00000000000000000010{made.sample.extension}  row 3 of 15" in text


def test_locate_names_a_damaged_object(landed: Make, capsys: Captured) -> None:
    made = landed("SequenceFile")
    whole = made.sample.land(TP, 10, 20)
    some = made.sample.upload(whole.objects[0].upload.key, [10, 13, 19])
    part = made.sample.land(TP, 10, 20, objects=(some,), landed=3, filtered=7)
    made.sample.commit(part).applied()
    file = made.root / some.upload.key
    file.write_bytes(file.read_bytes()[:-5])

    assert main(["locate", made.file, "clicks", "0", "13"]) == ExitCode.STALLED
    assert f"{some.upload.key}: damaged" in capsys.readouterr().err.replace("\n", "")


def test_locate_says_what_was_read_from_another_group(landed: Make, capsys: Captured) -> None:
    made = landed("Json")
    made.sample.commit(made.sample.land(TP, 10, 15, read_from="backup")).applied()

    _, text = ran(capsys, "locate", made.file, "clicks", "0", "12")

    assert "its range was read from what backup has landed, as Kafka had lost it" in text


def test_locate_sees_that_a_topic_was_created_again_after_the_last_snapshot(
    landed: Make, capsys: Captured
) -> None:
    made = landed("Json")
    made.sample.applied().open(generation=2).snapshot().roll().snapshot()
    assert "was landed by the COMMIT in slot 2" in ran(capsys, "locate", made.file, *CLICK)[1]

    made.sample.drop(TP)
    made.sample.add(TP)

    assert "offset 7 is not landed yet" in ran(capsys, "locate", made.file, *CLICK)[1]


def test_locate_says_that_a_topic_partition_has_left(made: Landed, capsys: Captured) -> None:
    made.sample.open().drop(TP)

    landed = ran(capsys, "locate", made.file, *CLICK)[1]
    beyond = ran(capsys, "locate", made.file, "clicks", "0", "25")[1]

    assert "was landed by the COMMIT in slot 2" in landed
    assert beyond == (
        "clicks/0 offset 25 is not landed: the topic partition left at offset 25, by the DROP in "
        "slot 6; `landfall reset` lets it enter again\n"
    )


def test_locate_reports_what_is_not_landed(made: Landed, capsys: Captured) -> None:
    def fate(topic: str, offset: int) -> str:
        return str(
            json.loads(ran(capsys, "locate", made.file, topic, "0", str(offset), "--json")[1])[
                "fate"
            ]
        )

    assert (fate("clicks", 25), fate("orders", 0)) == ("not-landed", "unknown")


def test_cat_prints_offsets_if_the_format_stores_them(made: Landed, capsys: Captured) -> None:
    code, text = ran(capsys, "cat", made.file, made.first.objects[0].upload.key, "--limit", "2")

    assert code == ExitCode.OK
    expected = (
        ['{"o":0}', '{"o":1}'] if made.sample.extension == ".json" else ['0\t{"o":0}', '1\t{"o":1}']
    )
    assert text.splitlines() == expected


def test_cat_takes_the_url_of_an_object_with_or_without_its_group(
    landed: Make, capsys: Captured
) -> None:
    made = landed("Json")
    url = f"file://{made.object}"

    with_group = ran(capsys, "cat", made.file, url, "--json")
    without = ran(capsys, "cat", url, "--format", "Json", "--codec", "None", "--json")

    assert with_group == without
    assert json.loads(without[1].splitlines()[9]) == {"value": '{"o":9}'}


def test_cat_of_a_missing_object_is_a_usage_error(made: Landed, capsys: Captured) -> None:
    assert main(["cat", made.file, "clicks/nothing"]) == ExitCode.USAGE
    assert "no object clicks/nothing" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["verify", "fsck"])
def test_a_group_that_never_ran_there_is_no_success(
    landed: Make, capsys: Captured, command: str
) -> None:
    made = landed("Json")
    mistyped = Path(made.file).read_text().replace("/root", "/rout")
    Path(made.file).write_text(mistyped)

    assert main([command, made.file]) == ExitCode.NOTHING
    assert f"no ledger of the group {GROUP} in file://{made.root.parent}/rout" in (
        capsys.readouterr().err
    )
    assert not (made.root.parent / "rout").exists()


def test_a_topic_that_the_ledger_never_had_is_no_success(made: Landed, capsys: Captured) -> None:
    assert main(["verify", made.file, "clikcs"]) == ExitCode.NOTHING
    assert "has no topic clikcs; did you mean clicks?" in capsys.readouterr().err


def test_verify_of_nothing_is_no_success(landed: Make, capsys: Captured) -> None:
    made = landed("Json")
    made.object.unlink()  # as if it were not visible yet

    code, text = ran(capsys, "verify", made.file)

    assert code == ExitCode.NOTHING
    assert "nothing was checked" in text
    assert not json.loads(ran(capsys, "verify", made.file, "--json")[1])["whole"]
