"""What the operator does: it watches, reconciles, executes actions and serves metrics.

This is the only package of the operator with I/O; everything it decides comes from ``core``.
"""
