"""The operator at work: it watches, reconciles, executes actions and serves metrics.

This is the only package of the operator with I/O; everything it decides comes from ``core``.
"""
