"""Descriptors of Protobuf schemas that are registered as text, or as what protoc makes of it.

A registry has the text of one ``.proto`` file per schema, and files that it imports as references;
confluent-kafka's Python client registers each as a base64 ``FileDescriptorProto`` instead. A schema
of one client may refer to schemas of another, so both may come together. Text is
compiled by Google's protoc, of the package grpcio-tools, in a process of its own: it ends the
process that it runs in when it meets an error of its own. The files of ``google/protobuf`` and
those that Confluent's clients know without a reference are there for both.
"""

import base64
import binascii
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from landfall.errors import Retry
from landfall.schemas import RegisteredSchema, SchemaKind

SECONDS = 120
"""How long protoc may take."""
_STOPPED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a process that somebody else has ended."""
_MAIN = "landfall-schema.proto"
_SHOWN = 300
"""How many characters of protoc's errors are shown."""

BUILT_IN: Mapping[str, str] = {
    "confluent/meta.proto": """\
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """\
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}
"""Files that Confluent's clients know (confluent-kafka, ``schema_registry/confluent``)."""


def check_installed() -> None:
    """Return if all packages are there.

    Raises:
        ValueError: one is not; the message says what to install.
    """
    for package, module in (("protobuf", "google.protobuf"), ("grpcio-tools", "grpc_tools")):
        if not _has(module):
            raise ValueError(
                f"Protobuf with a registry needs the package {package}, "
                "pip install 'landfall[protobuf]'"
            )


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def file_set(schema: RegisteredSchema) -> Any:
    """Return the ``FileDescriptorSet`` of a schema, its own file last.

    The schema and each of its references may be text or descriptors, whichever the others are.

    Raises:
        ValueError: it is none, or a file that it imports is missing.
        Retry: protoc was stopped before it had an answer.
    """
    if schema.kind != SchemaKind.PROTOBUF:
        raise ValueError(f"the schema is {schema.kind}, not PROTOBUF")
    texts, known = dict[str, str](), dict[str, Any]()
    for reference in schema.references:
        found = _described(reference.text)
        if found is None:
            texts[reference.name] = reference.text
        else:
            found.name = reference.name
            known[reference.name] = found
    main = _described(schema.text)
    if main is None:
        return _compiled({**texts, _MAIN: schema.text}, [_MAIN], known)
    if texts:
        known |= {file.name: file for file in _compiled(texts, [*texts], known).file}
    return _joined(main, known)


def _described(text: str) -> Any:
    """Return a base64 ``FileDescriptorProto``; None if the text is none."""
    from google.protobuf import descriptor_pb2  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        content = base64.b64decode("".join(text.split()), validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(content) if content else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _joined(main: Any, known: Mapping[str, Any]) -> Any:
    """Return a file and all that it imports, each after what it imports itself."""
    from google.protobuf import descriptor_pb2  # noqa: PLC0415

    found: dict[str, Any] = {}
    beginning: set[str] = set()

    def add(file: Any) -> None:
        beginning.add(file.name)
        for name in file.dependency:
            if name in found:
                continue
            if name in beginning:
                raise ValueError(f"{name} imports itself")
            imported = known.get(name) or _well_known(name)
            if imported is None:
                raise ValueError(f"imports {name}, which is not among its references")
            add(descriptor_pb2.FileDescriptorProto.FromString(imported.SerializeToString()))
            found[name].name = name
        found[file.name] = file

    add(main)
    return descriptor_pb2.FileDescriptorSet(file=found.values())


def _well_known(name: str) -> Any:
    """Return a file that needs no reference; None if there is none of this name."""
    wanted = f'syntax = "proto3"; import "{PurePosixPath(name)}";'
    if name not in BUILT_IN and not name.startswith("google/protobuf/"):
        return None
    files = _compiled({_MAIN: wanted}, [_MAIN]).file
    return next((file for file in files if file.name == name), None)


def _compiled(
    texts: Mapping[str, str], roots: Sequence[str], described: Mapping[str, Any] | None = None
) -> Any:
    """Return the ``FileDescriptorSet`` of some files, each after what it imports.

    Args:
        texts: the files that are text, by name.
        roots: the names of those that are wanted, with all that they import.
        described: files that may be imported as well, by name.
    """
    from google.protobuf import descriptor_pb2  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**BUILT_IN, **texts}.items():
            path = Path(folder, *_steps(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        made, known = Path(folder) / "descriptors.bin", Path(folder) / "known.bin"
        arguments = [f"-I{folder}", f"--descriptor_set_out={made}"]
        if described:
            files = descriptor_pb2.FileDescriptorSet(file=described.values())
            known.write_bytes(files.SerializeToString())
            arguments.append(f"--descriptor_set_in={known}")
        problem = _protoc([*arguments, *roots])
        if problem or not made.exists():
            # Some messages have the whole path, which is another one each time.
            said = problem.replace(f"{folder}/", "").replace(f"{_MAIN}:", "")
            raise ValueError(f"protoc: {said[:_SHOWN]}")
        return descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())


def _steps(name: str) -> Sequence[str]:
    """Return the folders and the file of a reference, none of which leads elsewhere."""
    steps = PurePosixPath(name).parts
    if not steps or steps[0] == "/" or ".." in steps or "\0" in name:
        raise ValueError(f"a reference is called {name!r}")
    return steps


def _protoc(arguments: Sequence[str]) -> str:
    """Run protoc; returns what it says if it fails.

    Raises:
        Retry: it took too long or was killed, which says nothing about the schema.
    """
    known = resources.files("grpc_tools") / "_proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", *arguments]
    try:
        done = subprocess.run(  # noqa: S603  # arguments of our own; text is in files
            [*command, f"-I{known}"], capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Retry(f"protoc takes longer than {SECONDS} seconds for a schema") from error
    if done.returncode in _STOPPED:
        raise Retry(f"protoc was stopped by signal {-done.returncode}, perhaps for want of memory")
    said = done.stderr.decode(errors="replace").strip()
    return (said or f"exit code {done.returncode}") if done.returncode else ""
