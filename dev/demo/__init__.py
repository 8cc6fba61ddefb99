"""``make demo``: a real topic lands twice in a real S3 server, exactly once each, through a kill -9.

``flights`` makes the events, ``drivers`` runs and kills Landfall, ``proof`` looks at what landed
without any of Landfall's code. ``__main__`` tells the story and times it.
"""
