"""Schemas of somebody who may register what he likes: his names reach no program and no file.

Each is a bad row with the reason: an error of another kind would fail the slice again and again.
"""

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.errors import Retry, SchemasAway
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.decoders.avro.rows import AvroRows
from landfall.pipeline.decoders.confluent import Framing
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.schemas import (
    RegisteredSchema,
    SchemaReference,
    UnusableSchemaError,
    client,
    proto_files,
    run_protoc,
)
from landfall.schemas.avro import RegistrySchemas
from landfall.schemas.cached import ASKS_BETWEEN, CachedRegistry
from landfall.schemas.client import RegistryClient, RegistryOptions
from landfall.schemas.json_schema import JsonSchemaDecoder
from landfall.schemas.json_schema import Options as JsonOptions
from landfall.schemas.protobuf import Options as ProtobufOptions
from landfall.schemas.protobuf import ProtobufDecoder
from tests.support.examples import share
from tests.support.kafka.registered import errors, framed, knows, records, wanted
from tests.support.kafka.schema_registry import schema_registry

NOBODY = RegistryOptions(("http://nobody",))
TEXT = 'syntax = "proto3"; message B { int32 a = 1; }'


def spec_of(module: str) -> ModuleSpec:
    found = find_spec(module)
    assert found is not None
    return found


def described(name: str, *imports: str) -> str:
    """A schema as confluent-kafka's Python client registers it."""
    field = descriptor_pb2.FieldDescriptorProto(name="a", number=1, type=5, label=1)
    message = descriptor_pb2.DescriptorProto(name="A", field=[field])
    made = descriptor_pb2.FileDescriptorProto(
        name=name, dependency=imports, message_type=[message], syntax="proto3"
    )
    return base64.b64encode(made.SerializeToString()).decode()


MAIN = described("a.proto")


def protobuf(text: str, *references: tuple[str, str]) -> RegisteredSchema:
    return RegisteredSchema("PROTOBUF", text, tuple(SchemaReference(*each) for each in references))


def decode_protobuf(schema: RegisteredSchema) -> Decoded:
    decoder = ProtobufDecoder(knows({7: schema}), ProtobufOptions(NOBODY), wanted("a"))
    return decoder.decode(records(framed(7, b"\0")))


def decode_avro(schema: RegisteredSchema) -> Decoded:
    schemas = RegistrySchemas(knows({7: schema}), None, None)
    return AvroRows(schemas, wanted("a"), Framing("avro")).decode(records(framed(7, b"\2")))


def decode_json(schema: RegisteredSchema) -> Decoded:
    of = wanted("a")
    made = JsonSchemaDecoder(
        JsonDecoder.of({}, of), JsonOptions(registry=NOBODY), of, knows({7: schema}), None
    )
    return made.decode(records(framed(7, b'{"a":1}')))


# ------------------------------------------------------------------------------ protoc's arguments


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[list[tuple[Any, Any]]]:
    """Keep temporary files in a folder, and note the command and the options of each process."""
    run, started = proto_files.subprocess.run, list[tuple[Any, Any]]()  # type: ignore[attr-defined]  # of the module

    def noted(command: Sequence[str], **options: Any) -> Any:
        started.append((command, options))
        return run(command, **options)

    with monkeypatch.context() as patched:
        patched.setattr(proto_files.subprocess, "run", noted)  # type: ignore[attr-defined]  # as above
        patched.setattr(proto_files.tempfile, "tempdir", str(folder))  # type: ignore[attr-defined]  # as above
        yield started


SHELL = "--plugin=protoc-gen-x=/bin/sh", "--x_out=/tmp", "a\nid > pwned\nxxx.proto"


def test_names_of_references_start_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    shell = tuple((name, TEXT) for name in SHELL)

    with watched(monkeypatch, folder) as started:
        decoded = decode_protobuf(protobuf(MAIN, *shell))

    assert [*tmp_path.rglob("*")] == [folder], "code of the attacker ran"
    assert "a reference is called '--plugin=protoc-gen-x=/bin/sh'" in errors(decoded)[0]
    assert started == []


def test_names_of_references_read_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "sasl.password"
    secret.write_text("hunter2-the-password")

    decoded = decode_protobuf(protobuf(MAIN, (f"@{secret}", TEXT)))

    assert "hunter2" not in errors(decoded)[0]
    assert errors(decoded)[0].startswith("protobuf: schema id 7: a reference is called '@/")


def test_protoc_gets_no_environment_and_the_same_arguments_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pl4nted")
    schemas = protobuf(TEXT), protobuf(MAIN, ("x/y.proto", TEXT)), protobuf("no schema")

    with watched(monkeypatch, tmp_path) as started:
        found = [errors(decode_protobuf(schema)) for schema in schemas]

    package = Path(str(spec_of("grpc_tools").origin)).parents[1]
    command = [sys.executable, "-I", run_protoc.__file__, str(package)]
    assert [started_with for started_with, _ in started] == [command] * 3
    assert [options["env"] for _, options in started] == [{}] * 3
    assert [Path(options["cwd"]).parent for _, options in started] == [tmp_path] * 3
    assert [len(each) for each in found] == [0, 0, 1]
    assert [*tmp_path.iterdir()] == []


def test_protoc_s_own_arguments_name_nothing_of_a_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = run_protoc.arguments(Path("/include"))
    Path("known.bin").touch()

    assert before == [
        "protoc",
        "--include_imports",
        "--descriptor_set_out=descriptors.bin",
        "-Iown",
        "-Ireferences",
        "-Ibuilt_in",
        "-I/include",
        "landfall-schema.proto",
    ]
    assert set(run_protoc.arguments(Path("/include"))) - set(before) == {
        "--descriptor_set_in=known.bin"
    }


HOSTILE_PARTS = [
    *("-", "--", "@", "/", "//", ".", "..", "../", "\0", "\n", "\\", '"', ";", "'", " ", "\ud800"),
    *("x", "x.proto", "é", "etc", "google/protobuf/", "confluent", "=", "%s", "$(id)", "a" * 300),
    *("--plugin=protoc-gen-x=/bin/sh", "known.bin", "descriptors.bin", "landfall-schema.proto"),
]
NAMES = st.lists(st.sampled_from(HOSTILE_PARTS), max_size=4).map("".join) | st.text(max_size=20)


@settings(max_examples=share(60), deadline=None)
@given(
    references=st.lists(
        st.tuples(NAMES, st.sampled_from([TEXT, MAIN, "", "import"])), min_size=1, max_size=3
    ),
    imports=st.lists(NAMES, max_size=2),
    is_text=st.booleans(),
)
def test_names_change_no_command_and_no_file_elsewhere(
    references: list[tuple[str, str]],
    imports: list[str],
    is_text: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    top = tmp_path_factory.mktemp("names")
    folder = top / "temporary"
    folder.mkdir()
    sendable = [name for name in imports if "\ud800" not in name]
    schema = protobuf(TEXT if is_text else described("a.proto", *sendable), *references)
    package = Path(str(spec_of("grpc_tools").origin)).parents[1]
    command = [sys.executable, "-I", run_protoc.__file__, str(package)]

    with pytest.MonkeyPatch.context() as patch, watched(patch, folder) as started:
        patch.chdir(top)
        decoded = decode_protobuf(schema)  # raises nothing, whatever it says

    assert all(given_ == command for given_, _ in started)
    assert all(len(reason.encode()) < 500 for reason in errors(decoded).values())
    assert [*top.rglob("*")] == [folder]


# --------------------------------------------------------------------------------- Protobuf's names


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["x.proto", "x.proto/y.proto"], "'x.proto', which is a folder of another"),
        (["x.proto/y.proto", "x.proto"], "'x.proto', which is a folder of another"),
        (["a" * 300 + ".proto"], "a reference is called 'aaaa"),
        (["a/" * 150 + "b.proto"], "a reference is called 'a/a/"),
        (["é\ud800.proto"], "is no text: "),
        (["é.proto"], "a reference is called 'é.proto'"),
        (["x\0.proto"], r"a reference is called 'x\x00.proto'"),
        (["a//b.proto"], "a reference is called 'a//b.proto'"),
        (["./b.proto"], "a reference is called './b.proto'"),
        (["a/../b.proto"], "a reference is called 'a/../b.proto'"),
        (["/etc/b.proto"], "a reference is called '/etc/b.proto'"),
        (["a/"], "a reference is called 'a/'"),
        ([""], "a reference is called ''"),
        (["landfall-schema.proto"], "'landfall-schema.proto', like the schema itself here"),
        ([f"{n}.proto" for n in range(1_001)], "has more than 1000 references"),
    ],
)
@pytest.mark.parametrize("main", [TEXT.replace("B", "A"), MAIN], ids=["text", "described"])
@pytest.mark.parametrize("other", [TEXT, described("b")], ids=["text", "described"])
def test_a_name_that_no_file_can_have_is_a_bad_row(
    names: list[str], reason: str, main: str, other: str
) -> None:
    decoded = decode_protobuf(protobuf(main, *((name, other) for name in names)))

    assert reason in errors(decoded)[0]
    assert len(errors(decoded)[0]) < 300
    assert errors(decoded)[0].encode()


@pytest.mark.parametrize("name", ["known.bin", "descriptors.bin", "errors.txt", "own/x.proto"])
def test_a_name_of_a_file_of_ours_is_one_like_any_other(name: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; message A {{ B b = 1; int32 a = 2; }}'

    decoded = decode_protobuf(protobuf(text, (name, TEXT)))

    assert errors(decoded) == {}


@pytest.mark.parametrize(
    "name",
    [
        'google/protobuf/any.proto"; import "x',
        "google/protobuf/../../etc/passwd",
        "google/protobuf/" + "a" * 5_000,
        "google/protobuf/\n",
    ],
)
def test_what_a_described_file_imports_is_no_text_of_ours(name: str) -> None:
    decoded = decode_protobuf(protobuf(described("a.proto", name)))

    assert "a reference is called 'google/protobuf/" in errors(decoded)[0]
    assert len(errors(decoded)[0]) < 300


def test_files_that_import_each_other_in_a_long_chain_are_a_bad_row() -> None:
    names = [f"f{n}.proto" for n in range(1_000)]
    chain = [(name, described(name, after)) for name, after in pairwise(names)]
    last = (names[-1], described(names[-1]))

    decoded = decode_protobuf(protobuf(described("a.proto", names[0]), *chain, last))

    assert errors(decoded) == {
        0: "protobuf: schema id 7: files import each other too deeply",
    }


# ----------------------------------------------------------------------------------------- limits


def limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> str:
    """Decode by a program in the place of protoc; returns the reason of the bad row."""
    script = tmp_path / "program.py"
    script.write_text(program)
    monkeypatch.setattr(run_protoc, "__file__", str(script))
    return errors(decode_protobuf(protobuf(TEXT)))[0]


def patched_limit(name: str, value: int, then: str) -> str:
    """The script with another limit, and with another program than protoc."""
    source = Path(run_protoc.__file__).read_text()
    start = source.index("    try:\n        from grpc_tools")
    end = source.index('if __name__ == "__main__":')
    lines = [
        f"{name} = {value}" if line.startswith(f"{name} = ") else line
        for line in (source[:start] + then + "\n\n" + source[end:]).splitlines()
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "value", "then", "reason"),
    [
        ("CPU_SECONDS", 1, "    while True: pass", "ended by signal 24: the schema takes too much"),
        (
            "MEMORY_BYTES",
            200 << 20,
            "    try: bytearray(300 << 20)\n    except MemoryError: return 8\n    return 0",
            "exit code 8",
        ),
        (
            "FILE_BYTES",
            1 << 20,
            "    return open('x', 'wb', buffering=0).write(bytes(2 << 20)) - (1 << 20) or 9",
            "exit code 9",
        ),
    ],
)
def test_a_schema_that_takes_too_much_is_a_bad_row(
    name: str,
    value: int,
    then: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = patched_limit(name, value, then)

    assert reason in limited(monkeypatch, tmp_path, program)


def test_a_protoc_that_writes_without_end_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys\nfor _ in range(100_000): sys.stderr.write('x' * 100)\nsys.exit(1)"

    assert limited(monkeypatch, tmp_path, program) == "protobuf: schema id 7: protoc: " + "x" * 300


def test_a_protoc_that_cannot_start_says_nothing_about_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(run_protoc.__file__).read_text().replace("grpc_tools", "no_such_package")

    with pytest.raises(Retry, match=r"protoc cannot be started: .*no_such_package"):
        limited(monkeypatch, tmp_path, source)


def test_a_protoc_that_takes_long_says_nothing_about_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proto_files, "SECONDS", 0.5)

    with pytest.raises(Retry, match="takes longer than"):
        limited(monkeypatch, tmp_path, "import time; time.sleep(60)")


# --------------------------------------------------------------- Avro, JSON Schema and the registry

HOSTILE = [
    "",
    "\ud800",
    "\0",
    "../x",
    "/etc/passwd",
    "--plugin",
    "@x",
    "#",
    "http://x/",
    "a" * 9_000,
]
RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def avro_text(reference: str) -> str:
    return json.dumps({**RECORD, "name": reference or "Q"}, ensure_ascii=False)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    ("kind", "decode", "main", "text"),
    [
        ("AVRO", decode_avro, lambda _: json.dumps(RECORD), avro_text),
        ("JSON", decode_json, lambda n: json.dumps({"$ref": n}), lambda n: json.dumps({"$ref": n})),
    ],
)
def test_names_of_other_languages_raise_nothing(
    name: str,
    kind: str,
    decode: Callable[[RegisteredSchema], Decoded],
    main: Callable[[str], str],
    text: Callable[[str], str],
) -> None:
    for used in ("Q", name):
        schema = RegisteredSchema(kind, main(name), (SchemaReference(name, text(used)),))
        decoded = decode(schema)

        assert all(reason.encode() for reason in errors(decoded).values())
    assert "\ud800" not in name or "is no text" in errors(decoded)[0]


KEYS = [
    *("type", "name", "fields", "items", "values", "symbols", "size", "logicalType", "precision"),
    *("default", "namespace", "$ref", "$schema", "$id", "pattern", "enum", "allOf", "properties"),
    *("required", "multipleOf", "definitions", "title"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["int", "R", "record", "fixed", "#", "#/a", "(a+)+$", "\ud800", "decimal"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=share(200), deadline=None)
@given(VALUES, VALUES)
def test_no_content_of_a_schema_fails_a_slice(main: object, other: object) -> None:
    text, reference = (json.dumps(each, ensure_ascii=False) for each in (main, other))
    record = json.dumps({**RECORD, "fields": [{"name": "a", "type": main}]}, ensure_ascii=False)

    for avro in (text, record):
        decode_avro(RegisteredSchema("AVRO", avro, (SchemaReference("Q", reference),)))
    decode_json(RegisteredSchema("JSON", text, (SchemaReference("a.json", reference),)))


def test_a_type_of_a_type_in_a_reference_is_read() -> None:
    reference = json.dumps({"type": ["null", "int"]})

    decoded = decode_avro(
        RegisteredSchema("AVRO", json.dumps(RECORD), (SchemaReference("x", reference),))
    )

    assert "TypeError" not in str(errors(decoded))


def test_a_schema_with_more_references_than_any_is_a_bad_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "MAX_REFERENCES", 3)
    with schema_registry() as registry:
        for n in range(6):
            uses = [{"name": f"s{n + 1}", "subject": f"s{n + 1}", "version": 1}]
            path = f"/subjects/s{n}/versions/1" if n else "/schemas/ids/7"
            body = {"schema": json.dumps(RECORD), "references": uses}
            registry.answers[path] = (200, body)
        known = CachedRegistry(RegistryClient(RegistryOptions((registry.url,))))
        rows = AvroRows(RegistrySchemas(known, None, None), wanted("a"), Framing("avro"))

        decoded = [rows.decode(records(framed(7, b"\2"))) for _ in range(3)]
        asked = len(registry.asked)

    expected = {0: "avro: schema id 7: has more than 3 references"}
    assert [errors(each) for each in decoded] == [expected] * 3
    assert asked == 8  # twice in a row, and then only after ``ASKS_BETWEEN`` more chunks
    assert ASKS_BETWEEN > 3


def test_references_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1_000)
    uses = [{"name": f"s{n}", "subject": f"s{n}", "version": 1} for n in range(4)]
    with schema_registry() as registry:
        registry.answers["/schemas/ids/7"] = (200, {"schema": '"int"', "references": uses})
        for n in range(4):
            registry.answers[f"/subjects/s{n}/versions/1"] = (200, {"schema": "x" * 300})

        with pytest.raises(UnusableSchemaError, match="has references of more than 0 MiB"):
            RegistryClient(RegistryOptions((registry.url,))).by_id(7)


def test_the_latest_schema_of_a_subject_that_cannot_be_used_is_waited_for() -> None:
    """No record chose it, so no record is bad because of it."""

    class Source:
        def by_id(self, _: int | str) -> None: ...

        def latest(self, _: str) -> RegisteredSchema:
            raise UnusableSchemaError("has more than 1000 references")

    with pytest.raises(SchemasAway, match="the latest of 'clicks-value' has more than 1000"):
        CachedRegistry(Source()).latest("clicks-value")


def test_no_environment_variable_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name not in {"PATH", "HOME"}:
            monkeypatch.delenv(name)

    assert errors(decode_protobuf(protobuf(TEXT))) == {}
