"""What holds each attack off, and how it is removed: then the attack's case fails.

``python -m tests.hostile.guards`` removes guards, plays their attacks, and writes the table of
``docs/evidence/hostile.md``; with names, only those rows. The guards of the cases in a file are
removed at once, each of which is of another case; one that others need, and those of tests of
single modules, alone. Nothing of the product knows of it: the folder ``without`` is on the path of
all processes that the suite starts, and what is in it changes a module of Landfall right after it
was imported.

A case without a guard of ours is in ``REASONS``: the API server holds it off, or a library, or its
removal would harm this machine.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
WITHOUT = "LANDFALL_HOSTILE_WITHOUT"
"""Environment variable: the names of the guards that are removed, separated by semicolons."""
PATH = f"{ROOT / 'tests/hostile/without'}{os.pathsep}{ROOT}"
"""``PYTHONPATH`` of everything that the suite starts."""
EVIDENCE = ROOT / "docs/evidence/hostile.md"
NOT_PLAYED = "**not played yet**"
MADE = "<!-- The table of guards is written by `make hostile-guards`. -->"
NEXT = "<!-- What follows is written by `make hostile`. -->"

Change = Callable[[Any], None]
"""Changes a module."""


@dataclass(frozen=True)
class Guard:
    """A guard.

    Attributes:
        case: the test of the attack.
        removed: what is removed, in words.
        modules: how the modules that hold it are changed.
        hurts: whether the attack then hurts the operator or the honest group: others need both.
    """

    case: str
    removed: str
    modules: dict[str, Change]
    hurts: bool = False


def _set(name: str, value: object) -> Change:
    """Set an attribute of a module, or of something in it."""

    def change(module: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            module = getattr(module, part)
        getattr(module, last)  # there is such a one
        setattr(module, last, value)

    return change


def _each(*changes: Change) -> Change:
    def change(module: Any) -> None:
        for of in changes:
            of(module)

    return change


def _nothing(*_: object, **__: object) -> None:
    return None


def _follow(module: Any) -> None:
    cautious = module.cautious
    module.cautious = lambda **headers: {**cautious(**headers), "allow_redirects": True}


async def _whole_body(response: Any) -> bytes:
    body: bytes = await response.read()
    return body


def _unpack(module: Any) -> None:
    cautious = module.cautious
    module.cautious = lambda **headers: {**cautious(**headers), "auto_decompress": True}
    module.body_of = _whole_body


def _evaluate(module: Any) -> None:
    def may_land(group: Any, topic: str) -> bool:
        pattern = group.spec.source.topic_pattern
        return bool(re.fullmatch(pattern, topic)) if pattern else topic in group.spec.source.topics

    module._may_land = may_land


def _by_claimed_name(module: Any) -> None:
    """Keep what drivers answer by the group that they name, not by the pod that was asked."""
    import json

    known: dict[tuple[str, str], bytes] = {}
    ask = module.HttpDriverClient.status

    async def status(self: Any, address: str) -> bytes | None:
        body: bytes | None = await ask(self, address)
        if not body:
            return body
        said = json.loads(body)
        key = said.get("namespace", ""), said.get("group", "")
        if said.get("lag_records", 0) >= 10**12:
            known[key] = body
        return known.get(key, body)

    module.HttpDriverClient.status = status


def _honor_labels(module: Any) -> None:
    of_kind = module.of_kind

    def honoring(*arguments: Any) -> Any:
        for found in of_kind(*arguments):
            for endpoint in found["spec"].get("podMetricsEndpoints", []):
                endpoint["honorLabels"] = True
            yield found

    module.of_kind = honoring


def _unescaped(module: Any) -> None:
    escape = module.escape
    module.escape = lambda text: text if text == "a/b" else escape(text)


def _follow_registries(module: Any) -> None:
    pool = module.urllib3.PoolManager
    request = pool.request

    def following(self: Any, *arguments: Any, **options: Any) -> Any:
        return request(self, *arguments, **{**options, "redirect": True, "retries": 3})

    pool.request = following


def _as_named(module: Any) -> None:
    module.repr = str


def _import_names(module: Any) -> None:
    """Look at the modules that a spec names, as a check of it could."""
    import importlib
    from contextlib import suppress

    parse = module.parse_group

    def parse_group(document: Any, *arguments: Any, **options: Any) -> Any:
        steps = document.get("spec", {}).get("transforms", [])
        for name in [str(step.get("use", "")) for step in steps if isinstance(step, dict)]:
            with suppress(ImportError, ValueError):
                importlib.import_module(name.partition(":")[0])
        return parse(document, *arguments, **options)

    module.parse_group = parse_group


def _keep_all(module: Any) -> None:
    def add(self: Any, key: Any, value: Any, _: int) -> Any:
        self._entries[key] = (value, 0)
        return value

    module.BoundedCache.add = add


def _unpack_positions(module: Any) -> None:
    import base64
    import json
    import zlib

    module._left_out = lambda text: frozenset(json.loads(zlib.decompress(base64.b64decode(text))))


def _no_anchor(module: Any) -> None:
    start = module.Chain.__init__
    module.Chain.__init__ = lambda self, group, _anchors=None: start(self, group)


def _any_member(module: Any) -> None:
    import gzip

    module.unpack = lambda packed, _: gzip.decompress(packed)


def _unbounded(module: Any) -> None:
    from contextlib import nullcontext

    module.bounded = nullcontext


def _without_deadline(module: Any) -> None:
    from contextlib import contextmanager

    @contextmanager
    def pool_until(_: float, **options: Any) -> Any:
        with module.urllib3.PoolManager(**options) as pool:
            yield pool

    module.pool_until = pool_until


def _seconds_of_any(module: Any) -> None:
    module._seconds = float


def _quote(module: Any) -> None:
    module.PublicReasons.reason = lambda _, bad: f"{bad.stage}: {bad.error}"


def _any_pod(module: Any) -> None:
    peer = module.operator_peer
    module.operator_peer = lambda context: {
        **peer(context),
        "podSelector": {"matchLabels": dict(context.operator_labels)},
    }


def _usual_cipher(module: Any) -> None:
    defaults = module.spark_defaults
    module.spark_defaults = lambda *of: "".join(
        line for line in defaults(*of).splitlines(keepends=True) if ".crypto.cipher" not in line
    )


def _names_are_arguments(module: Any) -> None:
    """Give protoc the names of references as arguments, in this process's folder."""
    from contextlib import suppress

    def compiled(_: str, texts: Any, __: Any = None) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                with suppress(OSError):
                    Path(folder, name.replace("/", "-")).write_text(text)
            options = [f"-I{folder}", f"--descriptor_set_out={folder}/made"]
            command = [sys.executable, "-m", "grpc_tools.protoc", *options, *texts]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
        raise ValueError(f"protoc: {run.stderr}")

    module.check_names, module._checked, module._compiled = _nothing, str, compiled


def _unrecorded(_: Any, expired: Any, through: int, *__: object) -> Any:
    import msgspec

    return msgspec.structs.replace(expired, through=through)


def _python_rows(batch: Any, **_: object) -> Any:
    return batch.to_pylist()


def _image_without(*lines: str) -> Change:
    """Leave lines out of the Dockerfile."""

    def change(module: Any) -> None:
        dockerfile = module.dockerfile

        def shorter() -> str:
            text: str = dockerfile()
            for line in lines:
                assert f"\n{line}\n" in text, line
                text = text.replace(f"\n{line}\n", "\n")
            return text

        module.dockerfile = shorter

    return change


def _script_with(name: str, there: str, instead: str) -> Change:
    """Change a script in ``docker``, in a copy of it."""

    def change(module: Any) -> None:
        script = module.script

        def changed(asked: str) -> Path:
            found: Path = script(asked)
            text = found.read_text()
            if asked != name:
                return found
            assert there in text, there
            copy = Path(tempfile.mkdtemp()) / "docker" / name
            copy.parent.mkdir()
            copy.write_text(text.replace(there, instead))
            copy.chmod(0o755)
            return copy

        module.script = changed

    return change


_LETTERS = "tests/unit/task/test_hostile_letters.py"
_EXPIRY = "tests/unit/driver/test_dead_letter_expiry.py"
_IMAGES = "tests.support.images"
_TRIMMED = "tests/integration/test_trimmed_spark.py"
_SCHEMAS, _PUBLISH = "tests/unit/schemas", "tests/unit/publish"
_MANIFESTS = "tests/unit/landfall_operator/test_manifests.py::test_"
_TENANT = "test_tenant.py::test_"
_ROOTS = "test_shared_folder.py::test_links_in_an_output_root"
"""The cases of links in an output root, which one guard holds off."""
_DRIVER_CLIENT = "landfall_operator.runtime.driver_client"
GUARDS: dict[str, Guard] = {
    "sizes of specs": Guard(
        "tests/unit/landfall_operator/test_hostile_specs.py"
        "::test_a_spec_that_is_too_long_is_named_and_not_kept",
        "a spec of any size is parsed and kept",
        {"landfall_operator.core.cache": _set("MAX_SPEC_BYTES", 1 << 40)},
    ),
    "turns of passes": Guard(
        "tests/unit/landfall_operator/test_work_queue.py"
        "::test_a_namespace_of_slow_passes_does_not_delay_the_group_of_another",
        "one namespace may hold all slots of passes",
        {
            "landfall_operator.runtime.fair_slots": _set(
                "FairSlots._next", lambda slots: next(iter(slots._waiting), None)
            )
        },
    ),
    "places of rollouts": Guard(
        "tests/unit/landfall_operator/test_pairs.py"
        "::test_the_rollouts_of_one_namespace_leave_a_place_to_the_next",
        "the groups of one namespace take all places of `operator.maxRollouts`",
        {"landfall_operator.runtime.reconciler": _set("share_of_places", lambda limit, **_: limit)},
    ),
    "stored names": Guard(
        "test_bucket_writer.py::test_a_stored_spec_and_an_open_that_name_code",
        "a stored spec may name any module (`Allowed.check` returns)",
        {"landfall.registry": _set("Allowed.check", _nothing)},
    ),
    "marks": Guard(
        "test_bucket_writer.py::test_a_mark_that_sends_readers_elsewhere",
        "a mark may name a folder, and any HDFS",
        {"landfall.ledger.names.roots": _set("_ANYWHERE", {"s3", "file", "hdfs"})},
    ),
    "limits of unpacking": Guard(
        "test_bucket_writer.py::test_bombs_and_garbage",
        "members of gzip are unpacked whole",
        {
            "landfall.ledger.gzip_members": _set(
                "unpack", lambda packed, _: __import__("gzip").decompress(packed)
            )
        },
    ),
    "length of rows": Guard(
        "test_bucket_writer.py::test_objects_that_unpack_to_gigabytes",
        "a row of a landed object may have any length",
        {"landfall.formats.lines": _set("MAX_ROW_BYTES", 2**40)},
    ),
    "anchor": Guard(
        "test_bucket_writer.py::test_a_history_that_is_rewritten",
        "a driver compares no hash of the ledger with the one that the operator kept",
        {"landfall.driver.process.known_ledger": _set("check_anchor", _nothing)},
    ),
    "connections": Guard(
        "test_neighbour.py::test_slow_connections_to_a_driver",
        "port 8080 has no limit of connections and of their time",
        {
            "landfall.driver.http.server": _each(
                _set("MAX_CONNECTIONS", 10**6), _set("_Server.service_actions", _nothing)
            )
        },
    ),
    "connections of the control port": Guard(
        "test_neighbour.py::test_slow_connections_to_the_control_port",
        "the control port has no limit of connections and of their time",
        {
            "landfall.driver.http.server": _each(
                _set("MAX_CONNECTIONS", 10**6), _set("_Server.service_actions", _nothing)
            )
        },
    ),
    "connections of the operator": Guard(
        "test_neighbour.py::test_the_operators_port",
        "the operator's port has no limit of connections and of their time",
        {
            "landfall_operator.runtime.http": _each(
                _set("MAX_CONNECTIONS", 10**6), _set("CONNECTION_SECONDS", 10**6)
            )
        },
    ),
    "signatures": Guard(
        "test_neighbour.py::test_commands_without_credentials",
        "the control port asks for no credentials",
        {"landfall.driver.http.control": _set("_Handler._authorize", _nothing)},
        hurts=True,
    ),
    "Spark's secret": Guard(
        "test_neighbour.py::test_sparks_ports",
        "`spark.authenticate` and `spark.network.crypto` are left out",
        {
            "tests.hostile.pods": lambda module: setattr(
                module,
                "NOT_LOCAL",
                (*module.NOT_LOCAL, "spark.authenticate", "spark.network.crypto."),
            )
        },
    ),
    "times": Guard(
        "test_producer.py::test_headers_keys_and_times",
        "the Kafka timestamp of a dead letter may be of any year",
        {"landfall.task.dead_letters": _set("wrong_timestamps", _nothing)},
    ),
    "escaped values": Guard(
        "test_producer.py::test_values_that_are_routed",
        "the value `a/b` is put into keys as it is",
        {"landfall.pipeline.route": _unescaped},
    ),
    "what cannot be seen": Guard(
        "test_producer.py::test_names_that_look_alike",
        "characters that cannot be seen are put into keys as they are",
        {"landfall.pipeline.route": _set("_is_plain", lambda char: char != "/")},
    ),
    "redirects of registries": Guard(
        "test_registry.py::test_answers",
        "redirects of a schema registry are followed",
        {"landfall.schemas.client": _follow_registries},
    ),
    "links": Guard(
        "test_shared_folder.py::test_links_among_the_files_of_a_feed",
        "links that lead out of a folder are followed",
        {"landfall.store.disk": _set("_is_out", lambda *_: False)},
    ),
    **{
        f"links: {place}": Guard(
            f"{_ROOTS}[{place}]",
            "links that lead out of a folder are followed",
            {"landfall.store.disk": _set("_is_out", lambda *_: False)},
        )
        for place in (".landfall-staging/new", ".landfall-staging", "_landfall", "hits")
    },
    "texts in logs": Guard(
        "test_shared_folder.py::test_names_of_files",
        "control characters are logged as they are",
        {"landfall.logs": _set("visible", lambda text, **_: text)},
    ),
    "texts on terminals": Guard(
        f"{_TENANT}a_status_for_the_terminal_of_an_administrator",
        "control characters are printed as they are",
        {"landfall.logs": _set("visible", lambda text, **_: text)},
    ),
    "patterns": Guard(
        f"{_TENANT}patterns_that_match_for_ever",
        "the operator evaluates `topicPattern`",
        {"landfall_operator.api.output_roots": _evaluate},
        hurts=True,
    ),
    "output roots": Guard(
        f"{_TENANT}an_output_around_and_inside_of_another_group_s",
        "groups with nested roots are never in conflict",
        {"landfall_operator.api.output_roots": _set("may_collide", lambda *_: False)},
    ),
    "limits of answers": Guard(
        f"{_TENANT}answers_that_are_no_status[a gzip bomb]",
        "answers are unpacked, and read whole",
        {_DRIVER_CLIENT: _unpack},
        hurts=True,
    ),
    "end of answers": Guard(
        f"{_TENANT}answers_that_are_no_status[an answer without end]",
        "an answer may take any time, and is read whole",
        {_DRIVER_CLIENT: _each(_set("TIMEOUT_SECONDS", 10.0**6), _set("body_of", _whole_body))},
        hurts=True,
    ),
    "time of answers": Guard(
        f"{_TENANT}answers_that_are_no_status[an answer that drips]",
        "an answer may take any time",
        {_DRIVER_CLIENT: _set("TIMEOUT_SECONDS", 10.0**6)},
        hurts=True,
    ),
    "imports": Guard(
        f"{_TENANT}names_of_code",
        "the operator imports the modules that steps name",
        {"landfall_operator.api.validation": _import_names},
    ),
    "values of annotations": Guard(
        f"{_TENANT}annotations",
        "of an annotation, any number of characters are kept",
        {"landfall_operator.api.verbs": _set("MAX_VALUE", 10**6)},
        hurts=True,
    ),
    "printable texts": Guard(
        f"{_TENANT}the_answer_to_a_request[status]",
        "texts of a status may have control characters, and names are quoted as they are",
        {
            "landfall_operator.api.status_values": _set("Text", str),
            "landfall_operator.core.requests": _as_named,
        },
    ),
    "printable Events": Guard(
        f"{_TENANT}the_answer_to_a_request[Event]",
        "texts of Events may have control characters, and names are quoted as they are",
        {
            "landfall_operator.runtime.event_recorder": _set("printable", lambda text: text),
            "landfall_operator.core.requests": _as_named,
        },
    ),
    "redirects of drivers": Guard(
        f"{_TENANT}answers_that_are_no_status[redirects]",
        "redirects of drivers are followed",
        {_DRIVER_CLIENT: _follow},
    ),
    "identity": Guard(
        f"{_TENANT}the_status_of_somebody_else",
        "a status belongs to the group that it names, not to that of the pod",
        {_DRIVER_CLIENT: _by_claimed_name},
        hurts=True,
    ),
    "labels of metrics": Guard(
        f"{_TENANT}forged_metrics",
        "`honorLabels: true` for drivers",
        {"tests.support.kubernetes.helm": _honor_labels},
    ),
    "ids of Java": Guard(
        f"{_SCHEMAS}/test_avro_ids.py::test_a_header_that_names_no_schema_makes_a_dead_letter",
        "the id of a schema may have any number of bits",
        {"landfall.pipeline.decoders.confluent": _set("MAX_ID", 2**63)},
    ),
    "unknown schemas": Guard(
        f"{_SCHEMAS}/test_client.py::test_ids_of_all_kinds_fill_no_memory",
        "all ids that the registry does not know are remembered",
        {
            "landfall.schemas.cached": _set(
                "CachedRegistry._remember_unknown",
                lambda self, schema_id: self._unknown.__setitem__(schema_id, 1),
            )
        },
    ),
    "large schemas": Guard(
        "tests/unit/pipeline/test_bounded_cache.py::test_the_oldest_entries_are_dropped",
        "a cache of schemas drops nothing",
        {"landfall.pipeline.bounded_cache": _keep_all},
    ),
    "deadline of registries": Guard(
        f"{_SCHEMAS}/test_deadline.py::test_an_answer_that_drips_ends",
        "a registry may answer for as long as it sends a byte now and then",
        {"landfall.schemas.deadline": _without_deadline},
    ),
    "folders of the store": Guard(
        "tests/unit/driver/test_existing_objects.py"
        "::test_a_topic_named_like_a_folder_of_the_store_stops_no_other_one",
        "a topic may be called like a folder of the store",
        {"landfall.driver.landing.existing_objects": _set("_RESERVED", {})},
    ),
    "positions of Delta": Guard(
        f"{_PUBLISH}/test_delta_position.py::test_keys_that_unpack_to_gigabytes",
        "what a commit of a Delta table says is unpacked whole",
        {"landfall.publish.delta.position": _unpack_positions},
    ),
    "times to wait": Guard(
        f"{_PUBLISH}/test_hostile_servers.py"
        "::test_a_time_to_wait_that_is_none_is_a_number_of_seconds",
        "`Retry-After` is read by `float`",
        {"landfall.publish.events.web": _seconds_of_any},
    ),
    "answers of catalogs": Guard(
        f"{_PUBLISH}/test_hostile_servers.py::test_a_catalog_sends_nobody_elsewhere",
        "the session of a REST catalog is that of `requests`",
        {"landfall.publish.iceberg.catalog": _set("bound", _nothing)},
    ),
    "size of answers of catalogs": Guard(
        f"{_PUBLISH}/test_hostile_servers.py::test_a_catalog_fills_no_memory",
        "the session of a REST catalog is that of `requests`",
        {"landfall.publish.iceberg.catalog": _set("bound", _nothing)},
    ),
    "payloads in reports": Guard(
        "tests/unit/task/test_planted_payloads.py::test_a_payload_is_in_its_dead_letter_only",
        "status, logs and COMMITs quote errors of decoders and steps",
        {"landfall.task.reasons": _quote},
    ),
    "warnings of plain HTTP": Guard(
        "tests/unit/api/test_plain_http.py::test_run_and_explain_warn",
        "secrets over plain HTTP are not looked for",
        {"landfall.api.plain_http": _set("plain_http", lambda _: ())},
    ),
    "cipher of Spark": Guard(
        f"{_MANIFESTS}connections_of_spark_are_encrypted_and_authenticated",
        "Spark's connections have its usual cipher",
        {"landfall_operator.objects.pod_templates": _usual_cipher},
    ),
    "labels of the operator": Guard(
        f"{_MANIFESTS}without_labels_of_the_operator_its_neighbours_do_not_reach_control",
        "without labels of the operator, a policy names no pod of its namespace",
        {"landfall_operator.objects.manifests": _any_pod},
    ),
    "anchor of fsck": Guard(
        "tests/unit/cli/objects/test_fsck.py::test_a_rewritten_history_is_found_by_an_anchor_only",
        "`fsck` does not look at `--anchor`",
        {"landfall.checks.chain": _no_anchor},
    ),
    "members of gzip": Guard(
        "tests/unit/ledger/test_gzip_members.py::test_a_bomb_is_damaged",
        "members of gzip are unpacked whole",
        {"landfall.ledger.gzip_members": _any_member},
    ),
    "memory of manifests": Guard(
        f"{_PUBLISH}/iceberg/test_hostile_iceberg.py"
        "::test_a_manifest_that_unpacks_to_more_than_memory",
        "metadata and manifests of Iceberg tables are read with any memory",
        {"landfall.publish.iceberg.tables": _unbounded},
    ),
    "memory of Avro": Guard(
        "tests/unit/test_memory_limit.py::test_a_block_of_avro",
        "a step of reading may take any memory",
        {"landfall.memory_limit": _unbounded},
    ),
    "arguments of protoc": Guard(
        f"{_SCHEMAS}/test_hostile_names.py::test_names_of_references_start_no_program",
        "names of references are arguments of protoc (C1 of the findings)",
        {"landfall.schemas.proto_files": _names_are_arguments},
    ),
    "files of arguments": Guard(
        f"{_SCHEMAS}/test_hostile_names.py::test_names_of_references_read_no_file",
        "names of references are arguments of protoc",
        {"landfall.schemas.proto_files": _names_are_arguments},
    ),
    "texts of schemas": Guard(
        f"{_SCHEMAS}/test_hostile_names.py::test_what_a_described_file_imports_is_no_text_of_ours",
        "a name is put into the text of a schema as it is (low 6)",
        {"landfall.schemas.proto_files": _set("_checked", str)},
    ),
    "working folder of images": Guard(
        "tests/unit/test_repository.py::test_images_import_nothing_from_the_working_folder",
        "images do not set `PYTHONSAFEPATH` (low 3)",
        {_IMAGES: _image_without("ENV PYTHONSAFEPATH=1")},
    ),
    "digests of bases": Guard(
        "tests/unit/test_release.py::test_a_base_without_a_digest_is_refused",
        "`docker/release` takes any base image (M8)",
        {_IMAGES: _script_with("release", "[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}", ".*")},
    ),
    "texts of licenses": Guard(
        f"{_TRIMMED}::test_the_texts_of_licenses_stay",
        "`docker/trim-spark` deletes texts of licenses (M8)",
        {_IMAGES: _script_with("trim-spark", "rm -rf examples", "rm -rf licenses examples")},
    ),
    "jars that scanners report": Guard(
        f"{_TRIMMED}::test_what_scanners_report_is_gone",
        "`docker/trim-spark` keeps `commons-lang` 2.6 (M8)",
        {_IMAGES: _script_with("trim-spark", "commons-lang-2*", "")},
    ),
    "bills of materials": Guard(
        "tests/integration/test_sbom.py::test_both_images_have_them",
        "an image has no bill of materials (M8)",
        {_IMAGES: _image_without("COPY --from=spark-bom /made/ /opt/landfall/")},
    ),
    "expiry of dead letters alone": Guard(
        f"{_EXPIRY}::test_old_dead_letters_are_deleted_and_nothing_else",
        "`badRecords.retain` deletes objects of all kinds (M9)",
        {"landfall.driver.landing.dead_letter_expiry": _set("_is_letters", lambda _: True)},
    ),
    "record of an expiry": Guard(
        f"{_EXPIRY}::test_fsck_counts_what_has_expired_and_finds_what_is_lost",
        "dead letters are deleted before a record of it (M9)",
        {
            "landfall.driver.landing.dead_letter_expiry": lambda module: setattr(
                module.ExpirySweep, "_say", _unrecorded
            )
        },
    ),
    "expiry during a replay": Guard(
        f"{_EXPIRY}::test_what_an_unfinished_replay_has_read_stays",
        "dead letters expire while a replay needs them (M9)",
        {
            "landfall.driver.landing.dead_letter_expiry": _set(
                "ExpirySweep._needed", lambda *_: frozenset()
            )
        },
    ),
    "places of dead letters": Guard(
        "tests/unit/store/test_routed.py"
        "::test_dead_letters_and_their_copies_are_in_their_own_place",
        "dead letters of `badRecords.url` are in the output root (M9)",
        {"landfall.ledger.names.object_names": _set("letters_place", lambda _: "")},
    ),
    "years of dead letters": Guard(
        f"{_LETTERS}::test_times_that_python_does_not_have_are_numbers",
        "times are read as Python's dates",
        {"landfall.formats.typed_rows": _set("plain_rows", _python_rows)},
    ),
    "years of compared rows": Guard(
        "tests/unit/reading/test_comparing.py"
        "::test_times_of_years_that_python_does_not_have_are_compared",
        "times are read as Python's dates",
        {"landfall.formats.typed_rows": _set("plain_rows", _python_rows)},
    ),
    "columns of dead letters": Guard(
        f"{_LETTERS}::test_damaged_ones_are_not_landed_again",
        "any table is taken for dead letters",
        {"landfall.formats.column_reading": _set("check_dead_letters", _nothing)},
    ),
    "times in errors": Guard(
        f"{_LETTERS}::test_a_time_in_the_error_of_a_payload_has_64_bits",
        "a time in an error may have any number of digits",
        {
            "landfall.task.dead_letters": _set(
                "_TIMESTAMP", re.compile(r"; Kafka timestamp (-?[0-9]+) is left out\Z")
            )
        },
    ),
    "assets of Airflow": Guard(
        f"{_PUBLISH}/events/test_airflow.py::test_a_list_of_assets_without_end_is_given_up",
        "a list of assets may have any length",
        {"landfall.publish.events.airflow": _set("MAX_ASSETS", 2**63)},
    ),
    "memory of ORC": Guard(
        "tests/unit/test_memory_limit.py::test_a_value_of_orc_ends_a_process_at_most",
        "a step of reading may take any memory",
        {"landfall.memory_limit": _unbounded},
    ),
}

_NAMES = "without the check of names a schema writes files anywhere on this machine"
_API = "the API server"
REASONS: dict[str, str] = {
    "test_neighbour.py::test_bodies_without_credentials": (
        "Python's `http.server`: 64 KiB a line, 100 headers; a body is read after credentials"
    ),
    "test_neighbour.py::test_what_a_driver_shows": "there is no page that shows more",
    **dict.fromkeys(
        (
            "test_producer.py::test_payloads_of_every_decoder[small]",
            "test_producer.py::test_payloads_of_every_decoder[large]",
        ),
        "each decoder has bounds of its own (`tests/unit/pipeline`, `test_bad_payloads.py`);"
        " without Thrift's limit of levels nothing happened: declared columns are read without"
        " recursion",
    ),
    "test_producer.py::test_batches_that_unpack_to_much": (
        "Kafka's client hands over what it unpacks a message at a time"
    ),
    "test_registry.py::test_schemas": f"{_NAMES}, and without limits it takes all of its memory",
    "test_registry.py::test_a_real_registry": _NAMES,
    f"{_TENANT}names_with_control_characters": (
        f"{_API} refuses five of the specs, and no message quotes what the others name; names that"
        " are quoted are those of `test_the_answer_to_a_request`"
    ),
    f"{_TENANT}secrets_of_somebody_else": (
        f"{_API} refuses names with a slash, and a kubelet mounts Secrets of the pod's namespace"
    ),
    f"{_TENANT}answers_that_are_no_status[headers without end]": (
        "aiohttp's limit of a header, 8 KiB"
    ),
    f"{_TENANT}answers_that_are_no_status[deep nesting]": "msgspec's limit of levels",
    f"{_TENANT}a_huge_status": (
        "two guards in a row, of which either is enough: answers are cut when they are read, and"
        " the status before it is written"
    ),
    f"{_TENANT}a_status_that_the_tenant_writes": f"{_API}: the schema of the status",
    f"{_TENANT}objects_with_the_names_and_labels_of_somebody_else": (
        f"{_API}: the operator asks for objects of a namespace, by the owner's uid"
    ),
}
"""Why there is no guard to remove from the other cases."""


class _Finder(MetaPathFinder):
    """Finds the modules of guards, and changes them once they are executed."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        changes: dict[str, list[Change]] = {}
        for guard in guards:
            for name, change in guard.modules.items():
                changes.setdefault(name, []).append(change)
        self._modules = {name: _each(*of) for name, of in changes.items()}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        change = self._modules.get(fullname)
        if change is None:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Changing(found.loader, change)
        return found


class _Changing(Loader):
    def __init__(self, loader: Loader, change: Change) -> None:
        self._loader = loader
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def remove(names: str) -> None:
    """Remove guards from this process, before Landfall is imported."""
    sys.meta_path.insert(0, _Finder(GUARDS[name] for name in names.split(";")))


def together(names: Iterable[str]) -> list[list[str]]:
    """The guards that are removed at once."""
    found: dict[str, list[str]] = {}
    for name in names:
        guard = GUARDS[name]
        alone = guard.hurts or guard.case.startswith("tests/")
        found.setdefault(name if alone else guard.case.partition("::")[0], []).append(name)
    return [*found.values()]


def file_of(case: str) -> Path:
    """The file of a case: of this suite, or of tests of single modules."""
    file = case.partition("::")[0]
    return ROOT / (file if file.startswith("tests/") else f"tests/hostile/{file}")


def play(names: list[str]) -> dict[str, str]:
    """Play attacks without their guards; how each case failed, empty if it did not."""
    found = [(file_of(case), case.partition("::")[2]) for case in (GUARDS[n].case for n in names)]
    cases = [f"{file}::{of}" for file, of in found]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "junit.xml"
        marked = "full" if found[0][0].is_relative_to(ROOT / "tests/hostile") else ""
        options = ["-n0", "-q", "-p", "no:randomly", "-m", marked, f"--junitxml={result}"]
        options += ["--timeout=300"] if not marked else []
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *cases],
            cwd=ROOT,
            env={**os.environ, WITHOUT: ";".join(names), "PYTHONPATH": PATH},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        played = ET.parse(result).getroot()  # of our own
    # An error is one of the suite, such as a server that did not start: the case was not played.
    failed = {
        case.get("name", ""): " ".join(failure.get("message", "").split())[:200]
        for case in played.iter("testcase")
        for failure in case.iter("failure")
    }
    return {
        name: next((how for case, how in failed.items() if case.partition("[")[0] == of), "")
        if "[" not in of
        else failed.get(of, "")
        for name, (_, of) in zip(names, found, strict=True)
    }


def write(file: Path, rows: dict[str, str]) -> None:
    """Write rows of the table of guards; those of other cases stay."""
    text = file.read_text()
    before, _, rest = text.partition(NEXT)
    written = {line.split("`")[1]: line for line in before.splitlines() if line.startswith("| `")}
    lines = [before.partition(MADE)[0].rstrip(), "", MADE, ""]
    lines += ["| case | guard that was removed | how the case failed |", "|---|---|---|"]
    for name, guard in GUARDS.items():
        if name in rows or guard.case not in written:
            lines.append(_row(guard.case, guard.removed, rows.get(name, NOT_PLAYED)))
        else:
            lines.append(written[guard.case])
    lines += [_row(case, "none", reason) for case, reason in REASONS.items()]
    file.write_text("\n".join([*lines, "", NEXT]) + rest)


def _row(case: str, removed: str, how: str) -> str:
    cells = (f"`{case}`", removed, how)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main(names: list[str]) -> int:
    """Play the attacks; returns how many held without their guard."""
    held = 0
    for of in together(names or GUARDS):
        seen = play(of)
        for name, how in seen.items():
            print(f"{name}: {'fails' if how else 'HELD'}: {how}", flush=True)
            held += not how
        write(EVIDENCE, {name: how for name, how in seen.items() if how})
    return held


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
