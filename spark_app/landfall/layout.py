"""Names of everything Landfall writes, and back. Pure: no I/O, no clock, no logging."""
