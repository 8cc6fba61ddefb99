"""The driver's Spark context: it runs tasks, and its executors are scaled."""
