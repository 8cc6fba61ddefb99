"""Fixtures of stores whose server is scripted."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import stamina

from landfall.api import spec
from landfall.store.s3.store import S3Store
from tests.support.stores.scripted import Answer, scripted
from tests.support.stores.scripted_s3 import Script, Setting


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.delenv("AWS_PROFILE", raising=False)


@pytest.fixture
def script(keys: None) -> Iterator[Script]:
    """``script(answer, ...)``: a store whose server gives these answers; each request is tried once
    unless said.
    """
    with (
        ExitStack() as servers,
        stamina.set_testing(True, attempts=5, cap=True),
    ):  # without its pauses

        def of(*answers: Answer, **settings: Any) -> Setting:
            server = servers.enter_context(scripted(answers))
            settings = {"max_attempts": 1, "read_timeout": "2s", **settings}
            reached = spec.S3(endpoint=server.endpoint, path_style=True, **settings)
            return Setting(S3Store("logs", "/root/", reached, pauses=(0.0,)), server)

        yield of
