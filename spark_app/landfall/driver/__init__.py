"""The driver: the loop that plans, runs, commits and completes."""
