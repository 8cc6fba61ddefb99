"""The process: start, hand over, the loop itself, publishers beside it, and its last words."""
