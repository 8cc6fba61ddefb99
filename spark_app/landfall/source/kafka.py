"""The driver's side of Kafka: topics, watermarks, offsets by time, the offset mirror."""
