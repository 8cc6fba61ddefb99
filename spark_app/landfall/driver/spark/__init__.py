"""Spark: the session that a driver runs its tasks on, and the executors it asks for."""
