"""The process: start, hand over, the loop itself, publishers alongside, and its last words."""
