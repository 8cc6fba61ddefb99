"""The committed offsets of Kafka consumer groups, to begin where another consumer stopped.

Landfall's own checkpoint is in its ledger: nothing here is read while landing.
"""

from collections.abc import Collection, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from landfall.api.spec import ConsumerGroup
from landfall.ledger.offsets import TopicPartition
from landfall.source.kafka_errors import translate_error
from landfall.source.properties import LOG_PROPERTIES, create_client, kafka_properties

TIMEOUT_SECONDS = 10.0


def committed_offsets(
    group: ConsumerGroup, kafka_group: str, tps: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The next offset to read, by what a Kafka group has committed.

    Topic partitions for which it has committed nothing are left out.

    Raises:
        Retry: Kafka does not answer.
        Stalled: SOURCE_DENIED, access to the Kafka group is denied.
    """
    properties = {**LOG_PROPERTIES, **kafka_properties(group)}
    # An AdminClient is a producer to librdkafka, which warns of a property of consumers.
    admin = create_client(AdminClient, {k: v for k, v in properties.items() if k != "group.id"})
    positions = [Position(tp.topic, tp.partition) for tp in sorted(tps)]
    request = [ConsumerGroupTopicPartitions(kafka_group, positions)]
    try:
        futures = admin.list_consumer_group_offsets(request, request_timeout=TIMEOUT_SECONDS)
        found = futures[kafka_group].result().topic_partitions
    except KafkaException as error:
        raise translate_error(error, f"offsets of Kafka group {kafka_group}") from error
    for position in found:
        if position.error is not None:
            what = f"offset of Kafka group {kafka_group} in {position.topic}/{position.partition}"
            raise translate_error(position.error, what)
    return {
        TopicPartition(position.topic, position.partition): position.offset
        for position in found
        if position.offset >= 0
    }
