"""A Hive metastore: the one in PySpark's own jars, version 2.3, with its tables in Derby on disk.

Nothing is downloaded, but there must be the virtual environment of ``make setup``. It listens on
every address of the machine, for any host: Hive 2.3 has no setting for that.

A metastore checks whether the folder of a new partition exists, and creates it if not. It has no
client of S3 here: folders of the buckets in ``LANDFALL_HIVE_BUCKETS`` (names separated by commas)
are created in the server's home, as ``s3a://`` and as ``s3://``. Other folders are files.

``LANDFALL_HIVE`` names the address of an existing metastore to use instead.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from dev.servers import cache
from dev.servers.ports import answers
from dev.servers.server import ServerKind

BUCKETS = "LANDFALL_HIVE_BUCKETS"
_ROOT = Path(__file__).resolve().parents[2]
_VIEW = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"


def _build() -> Path:
    """The folder of PySpark's jars."""
    found = sorted(_ROOT.glob(".venv/lib/python3*/site-packages/pyspark/jars"))
    if not found:
        raise cache.MissingTool(
            "the Hive metastore is in PySpark's jars, which `make setup` installs"
        )
    return found[0]


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    del host
    java = cache.tool("java", "the Hive metastore", "openjdk-17-jre-headless")
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf/hive-site.xml").write_text(_xml(_settings(home)))
    (home / "conf/core-site.xml").write_text(_xml(_file_systems(home)))
    marker = f"-Dlandfall.home={home}"
    fast_start = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m"]
    # A killed server loses nothing; a crash of the machine may lose everything.
    derby = [f"-Dderby.system.home={home}", "-Dderby.system.durability=test"]
    # Asynchronous logging needs a library that Spark lacks.
    quiet = "hive.async.log.enabled=false"
    argv = [
        *(java, *fast_start, *derby, marker, f"-D{quiet}"),
        *(
            "--add-opens=java.base/java.net=ALL-UNNAMED",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
        ),
        *("-cp", f"{home}/conf:{programs}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore"),
        *("-p", str(ports[0]), "--hiveconf", quiet),
    ]
    return argv, marker


def _settings(home: Path) -> Mapping[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{home}/data;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file://{home}/warehouse",
    }


def _file_systems(home: Path) -> Mapping[str, str]:
    made = {"fs.s3a.impl": _VIEW, "fs.s3.impl": _VIEW}
    for bucket in filter(None, os.environ.get(BUCKETS, "").split(",")):
        (home / "buckets" / bucket).mkdir(parents=True, exist_ok=True)
        made[f"fs.viewfs.mounttable.{bucket}.linkFallback"] = f"file://{home}/buckets/{bucket}"
    return made


def _xml(settings: Mapping[str, str]) -> str:
    properties = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f"<configuration>\n{properties}</configuration>\n"


HIVE_METASTORE = ServerKind(
    name="hive-metastore",
    existing="LANDFALL_HIVE",
    ports=1,
    build=_build,
    command=_command,
    ready=lambda _log, host, port: answers(host, port),
    address=lambda host, port: f"thrift://{host}:{port}",
    env=lambda address: {"LANDFALL_HIVE": address},
)
