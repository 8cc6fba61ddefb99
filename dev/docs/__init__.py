"""The pages and pictures of ``docs/`` that are made from the code."""
