"""Runs protoc in a process of its own, with limits; a script that ``proto_files`` starts.

Its arguments are the folder that holds the package grpc_tools, and nothing else: no text of a
schema, and no name in one, is ever an argument, because protoc takes names that begin with ``-`` or
``@`` for options, and some options start programs or read files. What protoc reads and writes lies
in the working folder, under the names below. Never import Landfall here: the process gets no
environment, and so no ``PYTHONPATH``.

Limits end a process whose schema is made to take for ever. The soft limit of CPU time is the lower
one, so that the signal (SIGXCPU) differs from the one of a machine without memory (SIGKILL).
"""

import resource
import sys
from pathlib import Path

MAIN = "landfall-schema.proto"
"""The only file that is compiled, with all that it imports."""
OWN = "own"
REFERENCES = "references"
BUILT_IN = "built_in"
"""Folders: of the only file, of references by their names, of files that need no reference."""
KNOWN, MADE = "known.bin", "descriptors.bin"
"""Descriptors that may be imported as well, and those that protoc makes."""
CPU_SECONDS = 20
MEMORY_BYTES = 1 << 30
FILE_BYTES = 64 << 20
CANNOT_START = 70
"""The exit code that does not depend on the schema; protoc's own are 0 and 1."""


def arguments(include: Path) -> list[str]:
    """Return protoc's arguments, the same for every schema."""
    known = [f"--descriptor_set_in={KNOWN}"] if Path(KNOWN).exists() else []
    folders = [f"-I{folder}" for folder in (OWN, REFERENCES, BUILT_IN, include)]
    return ["protoc", "--include_imports", f"--descriptor_set_out={MADE}", *known, *folders, MAIN]


def main(packages: str) -> int:
    """Compile the file in the working folder; returns protoc's exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.append(packages)
    try:
        from grpc_tools import protoc  # noqa: PLC0415  # found there only now
    except ImportError as error:
        sys.stderr.write(str(error))
        return CANNOT_START
    return int(protoc.main(arguments(Path(protoc.__file__).parent / "_proto")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
