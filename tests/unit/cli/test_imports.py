"""Commands import only what they need, so that they answer at once."""

import subprocess
import sys

import pytest

LIBRARIES = {"boto3", "confluent_kafka", "numpy", "pandas", "pyarrow", "pyspark"}


@pytest.mark.parametrize(
    ("modules", "needed"),
    [
        ("landfall.cli, landfall.cli.parser", set()),
        ("landfall.cli.look.status", set()),
        ("landfall.cli.look.status, landfall.source.kafka", {"confluent_kafka"}),
        ("landfall.cli.objects.fsck", set()),
        ("landfall.cli.decide.verb", set()),
        # Not pandas, which pyarrow imports if it may: that is half of the time.
        ("landfall.driver.process.run", {"confluent_kafka", "numpy", "pyarrow"}),
    ],
)
def test_a_command_imports_no_library_that_it_does_not_need(modules: str, needed: set[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert LIBRARIES & set(shown.stdout.split()) == needed


@pytest.mark.parametrize("typed", ["stauts x.yaml", "run x.yaml --until :00Z", "run --help"])
def test_a_typo_is_answered_before_the_models_of_a_spec_are_imported(typed: str) -> None:
    """They take half a second of CPU, and a command line that is wrong needs none of them."""
    program = f"""if True:
        import sys
        from landfall.cli import main
        try:
            main({typed.split()})
        except SystemExit:
            print(*sys.modules)
    """

    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert {"pydantic", "landfall.api.spec"}.isdisjoint(shown.stdout.split())


def test_a_driver_that_a_test_kills_imports_little_of_the_tests() -> None:
    """Spark's driver and each of its workers import the store: the auditor alone takes seconds."""
    store = "tests.support.landing.crashing_store"
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys, {store}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    modules = {name for name in shown.stdout.split() if name.startswith(("tests.", "landfall_"))}
    assert modules == {"tests.support", "tests.support.landing", store, "tests.support.waiting"}
