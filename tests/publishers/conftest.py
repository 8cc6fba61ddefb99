"""Fixtures of the suites of publishers: those of whole drivers."""

from tests.integration.conftest import processes, scene

__all__ = ["processes", "scene"]
