"""Replaces objects by others: compaction, promotion, undo, and the deletion of the old ones."""
