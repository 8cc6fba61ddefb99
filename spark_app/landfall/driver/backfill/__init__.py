"""The side location of a backfill: its lane, its source, and what it leaves there."""
