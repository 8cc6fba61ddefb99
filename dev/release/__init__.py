"""Builds what a release has, from a commit: ``python -m dev.release`` (``make release``).

The sources are exported from the commit to a folder of their own, so that no file of a
working copy that is not committed gets into a release. Every file has the times of the commit.
``versions`` holds what a version is and where it is repeated, ``changelog`` cuts it out of
CHANGELOG.md, ``compare`` builds twice and compares the bytes.
"""
