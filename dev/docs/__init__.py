"""The pages and pictures of ``docs/`` that are generated from the code."""
