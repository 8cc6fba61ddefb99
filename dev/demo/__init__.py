"""``make demo``: two groups land the same real topics in a real S3 server, through a kill -9.

Each must land every event exactly once. ``flights`` creates the events, ``drivers`` runs and kills
Landfall, ``proof`` reads the landed objects without any of Landfall's code. ``__main__`` runs the
phases and times them.
"""
