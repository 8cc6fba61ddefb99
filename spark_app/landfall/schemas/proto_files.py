"""Descriptors of Protobuf schemas that are registered as text, or as what protoc makes of it.

A registry has the text of one ``.proto`` file per schema, and files that it imports as references;
confluent-kafka's Python client registers each as a base64 ``FileDescriptorProto`` instead. A schema
of one client may refer to schemas of another, so both may come together. Text is
compiled by Google's protoc, of the package grpcio-tools, in a process of its own: it ends the
process that it runs in when it meets an error of its own. The files of ``google/protobuf`` and
those that Confluent's clients know without a reference are there for both.

A registry's texts and names belong to anyone who may register a schema. So the process gets neither
as arguments, has limits and no environment (``run_protoc``), and names become files only if they
are plain relative paths. What is wrong with a schema is a ValueError, which makes rows bad; only
what does not concern it is another error. See [decision
44](adr/0044-names-of-others-are-no-arguments.md).
"""

import base64
import binascii
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from landfall.errors import Retry, how_to_install
from landfall.schemas import RegisteredSchema, SchemaKind, run_protoc

SECONDS = 120
"""How long protoc may take."""
_STOPPED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a process that another process has ended."""
_SHOWN, _READ = 300, 1_500
"""How many characters of protoc's errors are shown, and how many bytes are read for them."""
MAX_REFERENCES = 1_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""What a reference may be called; a few more characters would do, but no import needs them."""
_MAX_NAME, _MAX_SHOWN_NAME = 255, 80

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
        ValueError: one is not; the message names what to install.
    """
    for package, module in (("protobuf", "google.protobuf"), ("grpcio-tools", "grpc_tools")):
        if not _has(module):
            raise ValueError(
                f"Protobuf with a registry needs the package {package}: "
                f"{how_to_install('protobuf')}"
            )


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def file_set(schema: RegisteredSchema) -> Any:
    """Return the ``FileDescriptorSet`` of a schema, its own file last.

    The schema and each of its references may be text or descriptors, independent of each other.

    Raises:
        ValueError: it is none, a file that it imports is missing, or a name cannot be a file's.
        Retry: protoc was stopped before it had an answer.
    """
    if schema.kind != SchemaKind.PROTOBUF:
        raise ValueError(f"the schema is {schema.kind}, not PROTOBUF")
    check_names([reference.name for reference in schema.references])
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
        return _compiled(schema.text, texts, known)
    if texts:
        files = _compiled(_importing(texts), texts, known).file
        known |= {file.name: file for file in files if file.name != run_protoc.MAIN}
    return _joined(main, known)


def check_names(names: Sequence[str]) -> None:
    """Return if files can have these names of references, all of them in one folder.

    Raises:
        ValueError: one has characters that no import needs, leads elsewhere, is too long, or is a
            file and a folder at once; or there are too many.
    """
    if len(names) > MAX_REFERENCES:
        raise ValueError(f"has more than {MAX_REFERENCES} references")
    folders = {
        folder.as_posix() for name in names for folder in PurePosixPath(_checked(name)).parents
    }
    for name in names:
        if name in folders:
            raise ValueError(f"a reference is called {_shown(name)}, which is a folder of another")
        if name == run_protoc.MAIN:
            raise ValueError(f"a reference is called {_shown(name)}, like the schema itself here")


def _checked(name: str) -> str:
    """Return a name if it can be a file's; raises ValueError if it cannot."""
    steps = name.split("/")
    if not (len(name) <= _MAX_NAME and _NAME.fullmatch(name)) or not {"", ".", ".."}.isdisjoint(
        steps
    ):
        raise ValueError(
            f"a reference is called {_shown(name)}; a name is a relative path of at most"
            f" {_MAX_NAME} letters, digits and ._-"
        )
    return name


def _shown(name: str) -> str:
    return repr(name if len(name) <= _MAX_SHOWN_NAME else f"{name[:_MAX_SHOWN_NAME]}…")


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

    try:
        add(main)
    except RecursionError:
        raise ValueError("files import each other too deeply") from None
    return descriptor_pb2.FileDescriptorSet(file=found.values())


def _well_known(name: str) -> Any:
    """Return a file that needs no reference; None if there is none of this name."""
    if name not in BUILT_IN and not name.startswith("google/protobuf/"):
        return None
    files = _compiled(_importing([name]), {}).file
    return next((file for file in files if file.name == name), None)


def _importing(names: Iterable[str]) -> str:
    """Return the text of a file that imports other files; their names need no quoting."""
    imports = "".join(f'import "{_checked(name)}";\n' for name in names)
    return f'syntax = "proto3";\n{imports}'


def _compiled(
    main: str, texts: Mapping[str, str], described: Mapping[str, Any] | None = None
) -> Any:
    """Return the ``FileDescriptorSet`` of a file, the last one, and of what it imports before it.

    Args:
        main: the text of the file.
        texts: the files that it may import as text, by names that ``check_names`` allows.
        described: files that may be imported as well, by name.
    """
    from google.protobuf import descriptor_pb2  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder / run_protoc.OWN, {run_protoc.MAIN: main})
        _write(folder / run_protoc.REFERENCES, texts)
        _write(folder / run_protoc.BUILT_IN, BUILT_IN)
        if described:
            files = descriptor_pb2.FileDescriptorSet(file=described.values())
            (folder / run_protoc.KNOWN).write_bytes(files.SerializeToString())
        problem, made = _protoc(folder), folder / run_protoc.MADE
        if problem or not made.exists():
            raise ValueError(f"protoc: {problem}".replace(f"{run_protoc.MAIN}:", ""))
        try:
            return descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
        except DecodeError as error:
            raise ValueError(f"protoc: what it made cannot be read: {error}") from error


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _protoc(folder: Path) -> str:
    """Run protoc in a folder, with limits and without an environment; returns why it fails.

    Raises:
        Retry: it did not start, took too long or was killed, which does not concern the schema.
    """
    package = find_spec("grpc_tools")
    assert package is not None, "checked when the decoder was built"
    assert package.origin is not None, "a package of files"
    packages = Path(package.origin).parents[1]
    command = [sys.executable, "-I", run_protoc.__file__, str(packages)]
    errors = folder / "errors.txt"
    try:
        with errors.open("wb") as output:  # in a file, because the limit of its size holds there
            done = subprocess.run(  # noqa: S603  # the same arguments for every schema
                command,
                cwd=folder,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                timeout=SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise Retry(f"protoc takes longer than {SECONDS} seconds for a schema") from error
    if not done.returncode:
        return ""
    if done.returncode in _STOPPED:
        raise Retry(f"protoc was stopped by signal {-done.returncode}, perhaps for want of memory")
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}: the schema takes too much time or memory"
    with errors.open("rb") as output:
        said = output.read(_READ).decode(errors="replace").strip()
    if done.returncode == run_protoc.CANNOT_START:
        raise Retry(f"protoc cannot be started: {said[:_SHOWN]}")
    return said[:_SHOWN] or f"exit code {done.returncode}"
