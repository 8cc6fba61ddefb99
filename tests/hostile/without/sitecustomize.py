"""Python imports this before anything else where the folder is on ``PYTHONPATH``."""

import importlib.util
import os
from pathlib import Path

if names := os.environ.get("LANDFALL_HOSTILE_WITHOUT"):
    # By its file: the program may not have the repository on its path yet.
    file = Path(__file__).parents[1] / "guards.py"
    spec = importlib.util.spec_from_file_location("landfall_hostile_guards", file)
    assert spec is not None
    assert spec.loader is not None
    guards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guards)
    guards.remove(names)
