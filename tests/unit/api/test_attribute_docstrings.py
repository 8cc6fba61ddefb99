"""The strings below fields, which document them."""

from landfall.api.pod_spec import Model, attribute_docstrings


class Base(Model):
    """Documented."""

    first: int = 1
    """Of the base,
    in two lines.
    """
    second: int = 2


class Derived(Base):
    """Documented, too."""

    second: int = 3
    """Of the derived class."""
    third_field: int = 4
    """With an alias."""


def test_fields_of_the_class_and_its_bases_are_documented() -> None:
    assert attribute_docstrings(Derived) == {
        "first": "Of the base,\nin two lines.",
        "second": "Of the derived class.",
        "third_field": "With an alias.",
    }


def test_a_schema_has_the_descriptions_by_alias() -> None:
    properties = Derived.model_json_schema()["properties"]

    assert {name: each["description"] for name, each in properties.items()} == {
        "first": "Of the base,\nin two lines.",
        "second": "Of the derived class.",
        "thirdField": "With an alias.",
    }
