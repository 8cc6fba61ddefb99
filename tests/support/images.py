"""The files that images are built from: the Dockerfile, and scripts in ``docker``."""

import re
from pathlib import Path

from tests.support.pages.markdown import ROOT


def dockerfile() -> str:
    """Return the text of the Dockerfile."""
    return (ROOT / "Dockerfile").read_text()


def started() -> list[str]:
    """Return the text of the last stage of each image: the operator's and Spark's."""
    stages = re.split(r"^FROM ", dockerfile(), flags=re.MULTILINE)
    return [stage for stage in stages if "\nENTRYPOINT " in stage]


def script(name: str) -> Path:
    """Return the path of a script in ``docker``."""
    return ROOT / "docker" / name
