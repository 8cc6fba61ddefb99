"""Real servers on a bare machine, for development: Kafka and S3, on loopback by default.

``server`` starts, stops and finds servers; ``cache`` builds their programs, once per machine;
``kafka`` and ``s3`` define the two kinds of servers; ``cli`` is the command line of ``dev/kafka``
and ``dev/s3``. They use only the standard library, because they run before there is a virtual
environment.
"""
