"""How large the product is: what counts as a line of code."""

from pathlib import Path

from dev.size import APART, PODS, code_lines, table, too_flat

SOURCE = '''"""A docstring
of two lines."""

import os
from typing import (
    Any,
)

# A comment.
LIMIT = 3
"""What the limit is."""


def text(value: Any) -> str:
    """Return it."""
    return f"""{value}

    of {os.sep}"""  # three lines
'''


def test_blanks_comments_docstrings_and_imports_are_no_code() -> None:
    assert code_lines(SOURCE) == 1 + 1 + 3


def test_rooms_are_counted_and_folders_that_are_too_flat_marked(tmp_path: Path) -> None:
    for package in (*PODS, *APART):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text('"""A package."""\n')
    room = tmp_path / PODS[0] / "driver"
    room.mkdir()
    for number in range(26):
        (room / f"m{number}.py").write_text("A = 1\nB = 2\n")

    assert [line.split() for line in table(tmp_path)] == [
        ["landfall/driver", "26", "files", "52", "lines"],
        ["landfall", "1", "files", "0", "lines"],
        ["pyspark_landfall", "1", "files", "0", "lines"],
        ["landfall_operator", "1", "files", "0", "lines"],
        ["in", "pods", "29", "files", "52", "lines"],
        ["more", "than", "25", "files:", "spark_app/landfall/driver", "(26)"],
        ["landfall_audit", "1", "files", "0", "lines"],
        ["landfall_migrate", "1", "files", "0", "lines"],
        ["apart", "2", "files", "0", "lines"],
    ]


def test_no_package_has_more_files_than_a_person_can_look_over() -> None:
    assert not too_flat()


def test_no_room_of_what_tests_share_has_more_files_than_a_person_can_look_over() -> None:
    assert not too_flat(packages=["tests/support"])
