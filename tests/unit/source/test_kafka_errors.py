"""A broker that refuses us is told from one that is silent, and soon."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from landfall.source.kafka_errors import Trouble, metadata


@dataclass
class Client:
    """Gets no answer; the callback hears this, if anything."""

    trouble: Trouble
    told: int | None = None
    patience: list[float] = field(default_factory=list)

    def list_topics(self, _topic: str | None, seconds: float) -> Any:
        self.patience.append(seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, _seconds: float) -> None:
        if self.told is not None:
            self.trouble.note(KafkaError(self.told))


@pytest.mark.parametrize(
    ("told", "raised", "patience"),
    [
        (KafkaError._AUTHENTICATION, KafkaError._AUTHENTICATION, [2.0]),
        (KafkaError._SSL, KafkaError._SSL, [2.0]),
        (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, [2.0, 60.0]),
        (None, KafkaError._TIMED_OUT, [2.0, 60.0]),
    ],
)
def test_a_refusal_is_not_waited_for(told: int | None, raised: int, patience: list[float]) -> None:
    client = Client(Trouble(), told)

    with pytest.raises(KafkaException) as failed:
        metadata(client, client.trouble, 60.0)  # type: ignore[arg-type]  # what is asked of it

    assert (failed.value.args[0].code(), client.patience) == (raised, patience)
