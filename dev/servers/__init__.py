"""Real servers on a bare machine, for development: Kafka, S3, schemas; on loopback by default.

``server`` starts, stops and finds servers; ``cache`` builds their programs, once per machine;
``kafka``, ``s3`` and ``schema_registry`` define the kinds of servers; ``cli`` is the command line
of ``dev/kafka``, ``dev/s3`` and ``dev/schema-registry``. They use only the standard library,
because they run before there is a virtual environment.
"""
