"""Turns Kafka records into decoded rows, each with its event time and its output partition."""
