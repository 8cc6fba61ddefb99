"""Groups made of settings, for tests of ``landfall_migrate``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from landfall import registry
from landfall.api.group_text import as_yaml
from landfall.api.spec import parse_group
from landfall_migrate import connect, document, secor
from landfall_migrate.connect import ConnectInput
from landfall_migrate.properties import PropertyLine
from landfall_migrate.report import KeyReport, MigrationReport
from landfall_migrate.secor import GroupChoices, SecorInput

PACKAGE = "com.pinterest.secor"
SECOR = {
    "kafka.seed.broker.host": "kafka",
    "secor.kafka.group": "secor_backup",
    "secor.s3.bucket": "logs",
    "secor.s3.path": "raw",
    "secor.message.parser.class": f"{PACKAGE}.parser.JsonMessageParser",
}
"""The least that Secor needs."""
SINK = {
    "name": "s3-sink",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "clicks",
    "s3.bucket.name": "logs",
    "flush.size": "1000",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
"""The least that the sink needs."""


@dataclass(frozen=True)
class Migrated:
    """A group and its report."""

    made: Mapping[str, Any]
    report: MigrationReport
    yaml: str

    def __getitem__(self, field: str) -> Any:
        """A field below ``spec``; None if it is not set."""
        found: Any = self.made["spec"]
        for step in field.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        return found

    def account(self, key: str) -> KeyReport:
        """What became of a key."""
        (found,) = (each for each in self.report.accounts if each.key == key)
        return found

    def check(self) -> "Migrated":
        """Check the group as a driver does at its start."""
        registry.check_spec(parse_group(self.made))
        return self


def of_secor(
    changes: Mapping[str, str] | None = None, wanted: GroupChoices | None = None
) -> Migrated:
    """The group of Secor's least settings with changes."""
    merged = {**SECOR, **(changes or {})}
    text = "".join(f"{key} = {value}\n" for key, value in merged.items())
    return of_files({"secor.properties": text}, wanted=wanted)


def of_files(
    files: Mapping[str, str], given: SecorInput | None = None, wanted: GroupChoices | None = None
) -> Migrated:
    """The group of properties files; without ``given`` the first one is Secor's."""
    given = given or SecorInput(next(iter(files)))
    draft = secor.convert(secor.settings_of(given, files.get), wanted or GroupChoices())
    made = document.accepted(draft)
    return Migrated(made, draft.report(), as_yaml(made, draft.comments))


def of_sink(
    changes: Mapping[str, str | None] | None = None,
    wanted: GroupChoices | None = None,
    *,
    worker: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Migrated:
    """The group of the sink's least configuration with changes; of a key that is None, without."""
    merged: dict[str, str | None] = {**SINK, **(changes or {})}
    config = {key: text for key, text in merged.items() if text is not None}
    lines = connect.config_of(config, "sink.json")
    own = [
        PropertyLine(key, (text,), "worker.properties:1") for key, text in (worker or {}).items()
    ]
    given = ConnectInput(lines, own, list((options or {}).items()))
    wanted = wanted or GroupChoices(bootstrap_servers="kafka:9092")
    draft = connect.convert(connect.settings_of(given), wanted)
    made = document.accepted(draft)
    return Migrated(made, draft.report(), as_yaml(made, draft.comments))
