"""Descriptors of a registered Protobuf schema, from its text by Google's protoc.

A registry has a ``.proto`` file per schema, and the files that it imports as references; clients in
Python register base64 of a ``FileDescriptorProto`` instead, and one may refer to the other. protoc
runs in a process of its own, in a folder of its own, with limits: texts and names come from any
client that may register a schema, so no name of one is an argument, and only plain relative names
become files.
"""

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from landfall_audit.errors import AuditRetry

_SECONDS = 120
_MAX_REFERENCES, _MAX_NAME = 1_000, 255
_SHOWN = 300
_MAIN, _MADE, _KNOWN = "audited-schema.proto", "made.bin", "known.bin"
_SOURCES = "sources"
_RUN = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 25))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
import grpc_tools
from grpc_tools import protoc
known = ["--descriptor_set_in={_KNOWN}"] if os.path.exists("{_KNOWN}") else []
include = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
sys.exit(protoc.main(["protoc", "--include_imports", "--descriptor_set_out={_MADE}", *known,
                      "-I{_SOURCES}", "-I" + include, "{_MAIN}"]))
"""
"""The program of the process; all that is of a schema is in files."""
_CONFLUENT: Mapping[str, str] = {
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
"""Files that Confluent's clients know without a reference."""


def file_set(text: str, references: Sequence[tuple[str, str]]) -> Any:
    """Return the ``FileDescriptorSet`` of a schema: what it imports, and its own file last.

    Args:
        text: the schema, as it is registered.
        references: names and texts of the schemas that it uses, each after its own imports.

    Raises:
        ValueError: it cannot be compiled, or has a name that no file may have.
        AuditRetry: protoc was stopped before it had an answer.
    """
    _check_names([name for name, _ in references])
    described = {name: _described(body) for name, body in references}
    known = {name: file for name, file in described.items() if file is not None}
    for name, file in known.items():
        file.name = name
    texts = {name: body for name, body in references if described[name] is None}
    main = _described(text)
    if main is None:
        return _compiled(text, texts, known)
    needed = (name for file in (main, *known.values()) for name in file.dependency)
    imports = [name for name in needed if name not in known]
    files = _compiled(_importing([*texts, *imports]), texts, known).file
    found = {file.name: file for file in files if file.name != _MAIN} | known
    return descriptor_pb2.FileDescriptorSet(file=[*_in_order(main, found), main])


def _check_names(names: Sequence[str]) -> None:
    if len(names) > _MAX_REFERENCES:
        raise ValueError(f"has more than {_MAX_REFERENCES} references")
    folders = {str(folder) for name in names for folder in Path(name).parents}
    for name in names:
        if not _is_plain(name) or name in folders or name == _MAIN:
            raise ValueError(f"a reference is called {name[:80]!r}, which no file may be")


def _is_plain(name: str) -> bool:
    """Return whether it is a relative path that needs no quoting and leads nowhere else."""
    characters = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*", name)
    return (
        len(name) <= _MAX_NAME
        and characters is not None
        and {"", ".", ".."}.isdisjoint(name.split("/"))
    )


def _described(text: str) -> Any:
    """The base64 ``FileDescriptorProto``; None if the text is none."""
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(content) if content else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _importing(names: Iterable[str]) -> str:
    lines = []
    for name in dict.fromkeys(names):
        if not _is_plain(name):
            raise ValueError(f"imports {name[:80]!r}, which no file may be")
        lines.append(f'import "{name}";\n')
    return f'syntax = "proto3";\n{"".join(lines)}'


def _in_order(main: Any, found: Mapping[str, Any]) -> Sequence[Any]:
    """Return the imports of a file, each after its own imports."""
    ordered: dict[str, Any] = {}
    beginning: set[str] = set()

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in ordered:
                continue
            if name in beginning:
                raise ValueError(f"{name} imports itself")
            if name not in found:
                raise ValueError(f"imports {name}, which is not among its references")
            beginning.add(name)
            add(found[name].dependency)
            ordered[name] = found[name]

    try:
        add(main.dependency)
    except RecursionError:
        raise ValueError("files import each other too deeply") from None
    return list(ordered.values())


def _compiled(main: str, texts: Mapping[str, str], known: Mapping[str, Any]) -> Any:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in {**_CONFLUENT, **texts, _MAIN: main}.items():
            path = folder / _SOURCES / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        if known:
            files = descriptor_pb2.FileDescriptorSet(file=known.values())
            (folder / _KNOWN).write_bytes(files.SerializeToString())
        problem = _protoc(folder)
        made = folder / _MADE
        if problem or not made.exists():
            raise ValueError(f"protoc: {problem}")
        return descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())


def _protoc(folder: Path) -> str:
    """Run protoc in a folder; returns why it fails, and nothing if it does not."""
    errors = folder / "errors.txt"
    try:
        with errors.open("wb") as output:  # a file, as the limit of its size holds there
            done = subprocess.run(  # noqa: S603  # the same arguments for every schema
                [sys.executable, "-I", "-c", _RUN],
                cwd=folder,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                timeout=_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise AuditRetry(f"protoc takes longer than {_SECONDS} seconds for a schema") from error
    if done.returncode in {-9, -15, -2}:
        raise AuditRetry(
            f"protoc was stopped by signal {-done.returncode}, perhaps for want of memory"
        )
    if done.returncode == 0:
        return ""
    said = errors.read_bytes()[:1500].decode(errors="replace").strip()
    return said.replace(f"{_MAIN}:", "")[:_SHOWN] or f"exit code {done.returncode}"
