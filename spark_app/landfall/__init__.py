"""Landfall's data plane: lands Kafka topics in an object store exactly once."""

__version__ = "0.1.0"
