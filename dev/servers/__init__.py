"""Real servers on a bare machine, for development: Kafka, S3, schemas, Hive; on loopback.

``server`` starts, stops and finds servers; ``cache`` builds their programs, once per machine;
``kafka``, ``s3``, ``schema_registry``, ``hive_metastore``, ``gcs`` and ``bigquery`` define the
kinds of servers; ``cli`` is the command line of ``dev/kafka`` and the like. They use only the
standard library, because they run before there is a virtual environment.
"""
