from pathlib import Path

import pytest

from tests.support.audit.audited_replacing import EXTENSIONS, Hour


@pytest.fixture(params=[*EXTENSIONS])
def hour(request: pytest.FixtureRequest, tmp_path: Path) -> Hour:
    return Hour(tmp_path / "root", request.param)


@pytest.fixture
def lines(tmp_path: Path) -> Hour:
    return Hour(tmp_path / "root")
