"""Real servers on a bare machine, for development: Kafka and S3, loopback only.

``server`` starts, stops and finds a server again; ``cache`` builds what it runs, once per machine;
``kafka`` and ``s3`` say how theirs differ; ``cli`` is the command line of ``dev/kafka`` and
``dev/s3``. Standard library only, because all of it runs before there is a virtual environment.
"""
