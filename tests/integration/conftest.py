"""Fixtures for tests of whole drivers and operators: a scene per test, one Spark per module."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import uuid4

import pytest
from pyspark import SparkContext

from landfall.api.spec import parse_group
from landfall.driver.spark.session import spark_context
from tests.support.files.feed_scene import FeedScene
from tests.support.kafka.broker import Broker
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, install
from tests.support.landing.group import Scene
from tests.support.landing.processes import Processes
from tests.support.pages.hourly_etl import HourlyEtl, drivers_of
from tests.support.places import kinds, save_secrets
from tests.support.stores.s3 import Bucket, S3Server

Etl = TypeVar("Etl", bound=HourlyEtl)
SECRETS = Path(__file__).parents[1] / "support/secrets"
"""Secrets of steps and decoders."""


@pytest.fixture(scope="session")
def resource(control_plane: Cluster) -> Cluster:
    """The session's control plane, which serves ConsumerGroups."""
    install(control_plane)
    return control_plane


@pytest.fixture
def groups(resource: Cluster, namespace: str) -> Groups:
    """The ConsumerGroups of a new namespace."""
    return Groups(resource, namespace)


@pytest.fixture
def kubelet(groups: Groups) -> Iterator[Kubelet]:
    """A kubelet that runs the drivers of that namespace."""
    with Kubelet(groups.cluster, groups.namespace).running() as running:
        yield running


@pytest.fixture
def s3_scene(kafka: Broker, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A bucket and the topics of one group."""
    for name, value in keys(bucket.server).items():
        monkeypatch.setenv(name, value)
    return Scene(kafka, bucket)


class Follow(Protocol):
    """Begins an example, followed as its page says, with topics and a bucket of its own."""

    def __call__(self, kind: type[Etl]) -> Etl: ...


@pytest.fixture
def follow(
    kafka: Broker,
    s3: S3Server,
    context: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Follow]:
    """Examples whose drivers use this Spark."""
    for name, value in keys(s3).items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:

        def begin(kind: type[Etl]) -> Etl:
            made = kind(kafka, s3.create_bucket(), tmp_path, f"t{uuid4().hex[:8]}")
            made.prepare()
            stack.enter_context(drivers_of(made, context))
            return made

        yield begin


@pytest.fixture
def files(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> FeedScene:
    """A bucket for files and what is landed of them."""
    for name, value in keys(bucket.server).items():
        monkeypatch.setenv(name, value)
    return FeedScene(bucket)


@pytest.fixture
def scene(s3_scene: Scene) -> Scene:
    """Where tests land that are not about another store."""
    return s3_scene


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts drivers as processes, which are killed after the test."""
    made = Processes(tmp_path)
    yield made
    made.clear()


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the Secrets that tasks find mounted."""
    folder = tmp_path_factory.mktemp("secrets")
    shutil.copytree(SECRETS, folder, dirs_exist_ok=True)
    save_secrets(folder, kinds.SECRETS)
    return folder


@pytest.fixture(scope="module")
def context(s3: S3Server, secrets: Path) -> Iterator[SparkContext]:
    """The Spark context of all drivers that run in this process."""
    variables = {**keys(s3), "LANDFALL_SECRETS": str(secrets)}
    environment = {f"spark.executorEnv.{name}": value for name, value in variables.items()}
    group = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "integration"},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "none:9092", "topics": ["none"]}},
            "output": {"url": "file:///-"},
            "tuning": {"sparkConf": environment},
        },
    }
    context = spark_context(parse_group(group), "local[2]")
    yield context
    context.stop()


def keys(server: S3Server) -> dict[str, str]:
    """The variables in which boto3 finds the keys of an S3 server."""
    return {name: value for name, value in server.env.items() if name.startswith("AWS_")}
