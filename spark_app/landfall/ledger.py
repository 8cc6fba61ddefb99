"""The ledger's records and what they add up to. Pure: no I/O, no clock, no logging."""
