"""The real driver on simulated executors, in simulated time.

``timeline`` is the time, ``executors`` runs tasks in slots, ``group`` is a driver with a topic.
Nothing waits: a run of an hour takes as long as the driver computes.
"""
