"""Replaces objects: compaction, promotion, undo, and the deletion of the old ones."""
