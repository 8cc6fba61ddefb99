"""Shared parts of the driver's rooms: tasks, threads, observations, retries, specs."""
