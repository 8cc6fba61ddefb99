"""From Kafka records to rows with a place: columns, decoders, event time, time zones, routes."""
