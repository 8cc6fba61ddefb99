"""``make newcomer``: README to a topic of one's own that has landed, as a new user does it.

The last commit is cloned into an empty folder, with an empty home, empty caches and no variable of
this shell. Then the commands of docs/start/laptop.md are typed as they are printed, and each is
timed. Only files are written by the program that a person would copy from the page.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pages.markdown import DOCS, ROOT
from tests.support.pages.start_pages import Shell, steps, unexpected

LIMIT = 600.0
"""Seconds until the topic has landed."""
PAGE = DOCS / "start" / "laptop.md"
LANDS = "landfall run web.yaml --until-caught-up"
CHECKS = "landfall audit web.yaml"
_PROGRAMS = ("git", "make", "python3", "java", "mvn", "go")
_KEPT = ("http_proxy", "https_proxy", "no_proxy", "ssl_cert_file", "java_home")
"""Variables, in any case, without which a machine may reach nothing, or find no Java."""


def main() -> int:
    """Follow the page in a new folder; returns 1 if it took too long, or went otherwise."""
    began = time.monotonic()
    faults, landed = [], None
    with _shell() as shell:
        clone = f"git clone -q {ROOT} landfall && cd landfall"
        for command, wanted in [(clone, ""), *steps(PAGE)]:
            if command != clone:
                shell.write_files(PAGE)
            typed = time.monotonic()
            ours = shell.type(command)
            print(f"{time.monotonic() - typed:7.1f} s  $ {command.split(' /')[0]}", flush=True)
            if shell.code or unexpected(ours, wanted):
                faults.append(f"$ {command}\n{ours}\n(exit code {shell.code})")
            if command == LANDS:
                landed = time.monotonic() - began
            if command == CHECKS and "no fault found" not in ours:
                faults.append(f"$ {command}\n{ours}")
    if landed is None:
        faults.append(f"the page no longer has {LANDS!r}")
    elif landed > LIMIT:
        faults.append(f"the topic had landed after {landed:.0f} s, and not after {LIMIT:.0f} s")
    else:
        print(f"the topic had landed after {landed:.0f} s")
    print(f"this machine has {os.cpu_count()} cores and a load of {os.getloadavg()[1]:.0f}")
    print(*faults, sep="\n\n", file=sys.stderr)
    return 1 if faults else 0


@contextmanager
def _shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory(prefix="landfall-newcomer-", ignore_cleanup_errors=True) as of:
        folder, home = Path(of), Path(of, "home")
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if name.lower() in _KEPT}
        shell = Shell(
            folder,
            folder,
            {
                **kept,
                "HOME": str(home),
                "PATH": os.pathsep.join(dict.fromkeys(_folders())),
                "LANG": "C.UTF-8",
                "TERM": "dumb",
                "MAVEN_OPTS": f"-Duser.home={home}",  # else Java asks the system whose home it is
            },
        )
        try:
            yield shell
        finally:
            kafka = folder / "landfall" / "dev" / "kafka"
            if kafka.exists():
                subprocess.run([kafka, "down"], check=False, capture_output=True)
            os.killpg(shell.process.pid, signal.SIGTERM)
            shell.process.wait()
            subprocess.run(["chmod", "-R", "u+w", of], check=False)  # Go's modules are read-only


def _folders() -> Iterator[str]:
    """Where the programs are that the page needs, outside of any virtual environment."""
    outside = os.pathsep.join(
        each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "activate").exists()
    )
    for name in _PROGRAMS:
        if found := shutil.which(name, path=outside):
            yield str(Path(found).parent)
    yield from ("/usr/local/bin", "/usr/bin", "/bin")


if __name__ == "__main__":
    sys.exit(main())
