from collections.abc import Iterator

import pytest
import stamina


@pytest.fixture(autouse=True)
def _without_pauses() -> Iterator[None]:
    """Retries do not wait."""
    with stamina.set_testing(True, attempts=100):
        yield
