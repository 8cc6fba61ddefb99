"""A schema registry, and whoever may register schemas in one."""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from landfall.api.contract import ExitCode
from tests.hostile.test_producer import run
from tests.hostile.world import CONTROL_CHARACTERS, World
from tests.support.audit.independent_audit import landed_lines
from tests.support.kafka.registry import Registry, framed
from tests.support.landing.group import Scene
from tests.support.landing.processes import Processes
from tests.support.payloads.avro import encoded
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PARTY = "Schema registry"

AVRO: dict[str, Any] = {"type": "record", "name": "E", "fields": [{"name": "a", "type": "long"}]}
PROTO = 'syntax = "proto3"; message E { int64 a = 1; }'
GOOD = 1
"""The id of the schemas of sound records."""
ROWS = 3
"""How many sound records there are in each topic."""


def described(name: str, *imports: str) -> str:
    """A schema as a descriptor, which names no syntax that protoc would check."""
    of = descriptor_pb2.FileDescriptorProto(name=name, dependency=imports, syntax="proto3")
    one = of.message_type.add(name="E").field.add(name="a", number=1)
    one.type, one.label = one.TYPE_INT64, one.LABEL_OPTIONAL
    return base64.b64encode(of.SerializeToString()).decode()


def doubled(levels: int) -> dict[str, Any]:
    """Records of which each has the next one twice."""
    found: dict[str, Any] = {**AVRO, "name": f"L{levels}"}
    for level in reversed(range(levels)):
        fields = [{"name": "a", "type": found}, {"name": "b", "type": f"L{level + 1}"}]
        found = {"type": "record", "name": f"L{level}", "fields": fields}
    return found


def arguments(world: World) -> tuple[str, ...]:
    """Names of references that a command line would take for something else."""
    return (
        "--plugin=protoc-gen-x=/bin/sh",
        f"--x_out={world.loot}",
        f"a\nid > {world.loot}/protoc\nx.proto",
        "@/etc/passwd",
        "../../../etc/passwd",
        "-I/",
    )


@dataclass
class Registered:
    """What a registry of a test answers.

    Attributes:
        schemas: by id: the kind, the text, and the references by name with their text.
        raw: by id: the bytes of the whole answer, headers included, sent with pauses.
    """

    schemas: dict[int, tuple[str, str, Mapping[str, str]]] = field(default_factory=dict)
    raw: dict[int, tuple[tuple[bytes, ...], float]] = field(default_factory=dict)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    url: str = ""

    def answer(self, path: str) -> dict[str, Any] | None:
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) in self.schemas:
            kind, text, references = self.schemas[int(parts[2])]
            uses = []
            for number, (name, other) in enumerate(references.items()):
                subject = f"s{parts[2]}-{number}"
                self.subjects.setdefault(subject, {"schema": other, "schemaType": kind})
                uses.append({"name": name, "subject": subject, "version": 1})
            return {"schema": text, "schemaType": kind, "references": uses}
        return self.subjects.get(parts[1]) if parts[0] == "subjects" else None


@contextmanager
def serving(registered: Registered, host: str = "127.0.0.1") -> Iterator[Registered]:
    """Serve a registry at an address of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            last = self.path.rpartition("/")[2]
            if last.isdecimal() and "/ids/" in self.path and int(last) in registered.raw:
                parts, pause = registered.raw[int(last)]
                for part in parts:
                    try:
                        self.wfile.write(part)
                    except OSError:
                        return
                    time.sleep(pause)
                return
            found = registered.answer(self.path)
            body = json.dumps(found or {"error_code": 40403, "message": "none"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    registered.url = f"http://{host}:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registered
    finally:
        server.shutdown()
        server.server_close()


def avro_schemas(world: World) -> dict[int, tuple[str, Mapping[str, str]]]:
    """Schemas of Avro that break what reads them, by id."""
    wide = {**AVRO, "fields": [{"name": f"f{n}", "type": "int"} for n in range(60_000)]}
    texts = [
        '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000,
        json.dumps(doubled(60)),
        json.dumps(wide),
        json.dumps({**AVRO, "fields": [{"name": "a", "type": "E"}]}),
        json.dumps({**AVRO, "fields": [{"name": "\x1b[2J\n", "type": "long"}]}),
        json.dumps({**AVRO, "fields": [{"name": "a", "type": ["null"] * 5_000}]}),
        json.dumps({**AVRO, "logicalType": "decimal", "precision": 10**9, "scale": -1}),
        '"' + "x" * 5_000_000,
        "\ud800",
    ]
    named = dict.fromkeys(arguments(world), json.dumps(AVRO))
    schemas: dict[int, tuple[str, Mapping[str, str]]] = {
        10 + n: (text, {}) for n, text in enumerate(texts)
    }
    return {**schemas, 30: (json.dumps(AVRO), named)}


def protobuf_schemas(world: World) -> dict[int, tuple[str, Mapping[str, str]]]:
    """Schemas of Protobuf that break what reads them, by id."""
    nested = "message A { " * 3_000 + "}" * 3_000
    wide = "".join(f"int32 f{n} = {n + 1};" for n in range(30_000))
    return {
        10: (described("a.proto"), dict.fromkeys(arguments(world), PROTO)),
        11: (PROTO, dict.fromkeys(arguments(world), PROTO)),
        12: (f'syntax = "proto3"; {nested}', {}),
        13: (f"{PROTO} message F {{ {wide} }}", {}),
        14: (f'import "x.proto"; {PROTO}', {"x.proto": f'import "y.proto"; {PROTO}',
                                            "y.proto": f'import "x.proto"; {PROTO}'}),
        15: (PROTO, {"x.proto": PROTO, "x.proto/y.proto": PROTO}),
        16: (PROTO, {"a" * 300 + ".proto": PROTO}),
        17: (described("a.proto", 'google/protobuf/any.proto"; import "/etc/passwd'), {}),
        18: (f"{PROTO}\n/* \x1b[2J", {}),
        19: (f'syntax = "proto3"; option (x) = "{"y" * 3_000_000}";', {}),
    }  # fmt: skip


def document(scene: Scene, url: str, topics: Mapping[str, str]) -> dict[str, Any]:
    """A group whose topics are decoded by the schemas of a registry."""
    entries = [
        {
            "pattern": topic.replace(".", r"\."),
            "decode": {"format": format_, "registry": {"urls": [url], "timeout": "2s"}},
        }
        for topic, format_ in topics.items()
    ]
    spec: dict[str, Any] = {
        "decode": {"format": "Json"},
        "topics": entries,
        "badRecords": {"maxRatio": "1"},
    }
    return scene.document(**{**spec, "route": {"pattern": "all"}})


def sound(format_: str) -> bytes:
    """A record of the good schema."""
    if format_ == "Avro":
        return framed(GOOD, encoded(AVRO, {"a": 7}))
    return framed(GOOD, b"\x00\x08\x07")


def landed(scene: Scene, topic: str) -> int:
    """How many sound records of a topic landed."""
    lines = [line for key, line in landed_lines(scene.bucket) if key.startswith(f"{topic}/")]
    return sum(json.loads(line).get("a") in {7, "7"} for line in lines)


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world.kafka, world.s3.create_bucket())


@pytest.fixture
def processes(tmp_path: Any) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.clear()


def test_schemas(world: World, scene: Scene, processes: Processes) -> None:
    avro, protobuf = avro_schemas(world), protobuf_schemas(world)
    topics = {}
    registries = {"Avro": Registered(), "Protobuf": Registered()}
    for format_, hostile, good in (("Avro", avro, json.dumps(AVRO)), ("Protobuf", protobuf, PROTO)):
        topic = scene.topic(format_.lower())
        topics[topic] = format_
        kind = format_.upper()
        registries[format_].schemas |= {id_: (kind, *rest) for id_, rest in hostile.items()}
        registries[format_].schemas[GOOD] = (kind, good, {})
        payloads = [framed(id_, b"\x00\x08\x07") for id_ in hostile]
        world.kafka.produce(topic, [sound(format_), *payloads, sound(format_), sound(format_)])

    with (
        world.attack(
            PARTY,
            "schemas",
            "names of references that are arguments of protoc (`--plugin`, `@/etc/passwd`, line"
            " breaks), nesting, 2^60 types, 60,000 fields, imports in a circle, megabytes of text",
        ) as attack,
        serving(registries["Avro"]),
        serving(registries["Protobuf"]),
    ):
        made = document(scene, "", topics)
        for entry in made["spec"]["topics"]:
            decode = entry["decode"]
            decode["registry"]["urls"] = [registries[decode["format"]].url]
        code, said, most = run(processes, made)
        assert code == ExitCode.OK, said[-4000:]
        assert {topic: landed(scene, topic) for topic in topics} == dict.fromkeys(topics, ROWS)
        attack.saw("each row of such a schema is a dead letter; sound rows beside them land")
        attack.saw(f"the driver with all its processes needs less than {2 + most // 2**30} GiB")
        attack.check("root:" not in said, "a file of the pod in the log")
        attack.check(not CONTROL_CHARACTERS & set(said), "control characters in the log")
        letters = b"".join(scene.bucket.read(k) for k in scene.bucket.keys("_landfall/"))
        attack.check(b"root:x:" not in letters, "a file of the pod in a dead letter")


def test_a_real_registry(
    world: World, scene: Scene, processes: Processes, registry: Registry
) -> None:
    uses = []
    for name in arguments(world):
        subject = registry.subject()
        registry.register(subject, PROTO, "PROTOBUF")
        uses.append({"name": name, "subject": subject, "version": 1})
    topic = scene.topic("protobuf")
    good = registry.register(registry.subject(), PROTO, "PROTOBUF")
    try:
        bad = registry.register(registry.subject(), described("a.proto"), "PROTOBUF", uses)
        accepted = "the registry accepts it"
    except AssertionError as error:
        bad, accepted = 999_999, f"this registry refuses it: {str(error)[:80]}"
    bodies = [framed(id_, b"\x00\x08\x07") for id_ in (good, bad, good, good)]
    world.kafka.produce(topic, bodies)

    with world.attack(
        PARTY, "arguments of protoc, in a real registry", "references registered in Apicurio"
    ) as attack:
        code, said, _ = run(processes, document(scene, registry.url, {topic: "Protobuf"}))
        assert code == ExitCode.OK, said[-4000:]
        assert landed(scene, topic) == ROWS
        attack.saw(f"{accepted}; its row is a dead letter, the others land")


def test_answers(world: World, scene: Scene, processes: Processes) -> None:
    registered = Registered(schemas={GOOD: ("AVRO", json.dumps(AVRO), {})})
    away = f"HTTP/1.1 302 Found\r\nLocation: {world.outside.url}/x\r\nContent-Length: 0\r\n\r\n"
    registered.raw |= {
        10: ((away.encode(),), 0),
        11: ((b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", *[b"["] * 100_000), 0.5),
        12: ((b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 1_000_000] * 200), 0),
        13: ((b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * 100_000), 0.001),
    }
    names = {10: "a redirect", 11: "a drip", 12: "no end", 13: "headers without end"}
    honest = scene.topic("honest")
    topics = {honest: "Avro"}
    world.kafka.produce(honest, [sound("Avro")] * ROWS)
    for id_ in registered.raw:
        topics[topic := scene.topic(f"raw{id_}")] = "Avro"
        world.kafka.produce(topic, [framed(id_, b"\x02")])

    with (
        world.attack(
            PARTY, "answers", f"{', '.join(names.values())}, to the request for a schema"
        ) as attack,
        serving(registered),
    ):
        process = processes.run(document(scene, registered.url, topics), "--http-port", "0")
        wait_for(lambda: landed(scene, honest) == ROWS, "the honest topic lands")
        world.kafka.produce(honest, [sound("Avro")] * ROWS)
        wait_for(lambda: landed(scene, honest) == 2 * ROWS, "the honest topic lands on")
        assert process.popen.poll() is None
        attack.saw("their topic partitions wait or have dead letters, another one lands on")
