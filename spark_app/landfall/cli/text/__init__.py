"""How commands print: consoles, numbers, progress, and log events as lines."""
