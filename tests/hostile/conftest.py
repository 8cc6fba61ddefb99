"""One world for the session; the table of all attacks is written at its end."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile import evidence
from tests.hostile.world import World, playing
from tests.support.kafka.broker import Broker
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.live_group import SOUND
from tests.support.stores.s3 import S3Server

EVIDENCE = "LANDFALL_HOSTILE_EVIDENCE"
"""Environment variable: the file that gets the table, of a run in which nothing failed."""


@pytest.fixture(scope="session")
def world(
    control_plane: Cluster,
    kafka: Broker,
    s3: S3Server,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[World]:
    """The operator and the honest group; at the end, everything of it is there exactly once."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in s3.env.items():
            if name.startswith("AWS_"):
                patched.setenv(name, value)
        with playing(control_plane, kafka, s3, tmp_path_factory.mktemp("hostile")) as made:
            yield made
            assert made.honest.final_audit() == SOUND
            file = os.environ.get(EVIDENCE)
            if file and not request.session.testsfailed:
                evidence.write(Path(file), made.attacks)
