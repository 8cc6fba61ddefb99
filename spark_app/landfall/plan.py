"""Deciding which offset ranges to land next. Pure: no I/O, no clock, no randomness, no logging."""
