"""Fixtures of the suite of files: those of whole drivers."""

from tests.integration.conftest import files

__all__ = ["files"]
