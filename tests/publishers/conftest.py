"""Fixtures of the suites of publishers: those of whole drivers, and Spark with a Hive metastore."""

from collections.abc import Iterator

import pytest

from tests.integration.conftest import processes, scene
from tests.support.publishers.hive import HiveServer
from tests.support.publishers.hive_reader import SparkSql, spark_sql

__all__ = ["processes", "scene"]


@pytest.fixture(scope="module")
def spark(hive: HiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSql]:
    """A session that reads the tables of the metastore."""
    with spark_sql(hive.uri, tmp_path_factory.mktemp("spark")) as session:
        yield session
