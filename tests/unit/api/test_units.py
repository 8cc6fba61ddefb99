"""A column says how it is encoded in the words of the event time."""

from landfall.api.spec.decode import ColumnUnit, TimeUnit


def test_a_column_has_the_units_of_the_event_time_and_days() -> None:
    assert {unit.name: unit.value for unit in ColumnUnit} == {
        **{unit.name: unit.value for unit in TimeUnit},
        "DAYS": "Days",
    }
