"""What a Delta table calls a landed file."""

import pytest

from landfall.publish.table_names import InTheWayOfVacuum, absolute, below, path_in_table


@pytest.mark.parametrize(
    ("table", "url", "path"),
    [
        ("s3://lake/tables/t", "s3://lake/parsed/t/dt=1/a", "s3://lake/parsed/t/dt=1/a"),
        ("s3://lake/parsed/t/", "s3a://lake/parsed/t/_landed/dt=1/a", "_landed/dt=1/a"),
        ("s3://lake/parsed/t", "s3://lake/parsed/t2/dt=1/a", "s3://lake/parsed/t2/dt=1/a"),
        ("file:///x//t/", "file:///x/t/_l/a%20b", "_l/a%20b"),
        ("/x/t", "file:///x/t/_l/a", "_l/a"),
    ],
)
def test_a_file_in_the_folder_of_its_table_has_a_relative_path(
    table: str, url: str, path: str
) -> None:
    assert path_in_table(table, url) == path
    assert below("", absolute(table, path)) == below("", url.replace("s3a:", "s3:"))


@pytest.mark.parametrize(
    "path", ["a", "dt=1/a", "_a", "_dt=1/a", "_delta_log/a", "_delta_index/a", "_change_data/a"]
)
def test_a_file_that_vacuum_would_delete_is_refused(path: str) -> None:
    with pytest.raises(InTheWayOfVacuum, match="where VACUUM deletes it unless its first folder"):
        path_in_table("s3://lake/t", f"s3://lake/t/{path}")
