from collections.abc import Iterator

import pytest
import stamina


@pytest.fixture(autouse=True)
def _without_pauses() -> Iterator[None]:
    """Retries do not wait, and do not end while a test that is busy elsewhere lets them fail."""
    with stamina.set_testing(True, attempts=10**9):
        yield
