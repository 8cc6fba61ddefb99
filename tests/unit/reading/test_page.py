"""The examples of the page about reading run as they stand."""

import re
from pathlib import Path

import pytest

from tests.support.ledger.readable import CLICKS, Readable

PAGE = Path(__file__).parents[3] / "docs/guides/reading.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def landed_in(folder: Path) -> Readable:
    landed = Readable(folder)
    for hour in ("04", "05", "06"):
        folders = f"dt=2026-11-21/hr={hour}"
        landed.land(CLICKS, (folders, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]))
    landed.settle()
    return landed


# ``tests/integration/test_tail.py`` runs the example that needs a Kafka.
@pytest.mark.parametrize(
    "example", [each for each in EXAMPLES if "spark" not in each and "tail=True" not in each]
)
def test_an_example_runs(example: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    landed = landed_in(tmp_path)

    exec(example.replace("s3://logs/parsed", landed.url), found := {})

    shown = capfd.readouterr().out
    if "to_duckdb" in example:
        assert shown == "[('04', 2), ('05', 2), ('06', 2)]\n"
    elif "read_parquet" in example:
        assert shown == "(6,)\n"
    elif "timedelta" in example:
        assert (found["last_hour"].rows, found["before"].rows) == (2, 6)
    elif "with_schema" in example:
        assert shown == "6\n"
    else:
        assert "['clicks']\n" in shown
        assert found["table"].column_names == ["id", "name", "hr"]
