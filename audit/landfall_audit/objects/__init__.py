"""Reads landed objects: their rows, whatever the format, and which range each row belongs to."""
