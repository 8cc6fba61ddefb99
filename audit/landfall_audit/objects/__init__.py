"""Reads landed objects: their rows, in any format, and the range of each row."""
