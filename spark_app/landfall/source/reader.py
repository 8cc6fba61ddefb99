"""A task's side of Kafka: exact ranges, read with librdkafka."""
