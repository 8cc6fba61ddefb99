"""From a record's time and fields to its output partition. Pure: no I/O, no clock, no logging."""
