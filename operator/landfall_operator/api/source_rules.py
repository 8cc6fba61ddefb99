"""CEL rules of ``spec.source``, with the messages for users who break them."""

LATER_SOURCES = (
    "spec.source.files",
    "spec.source.landed",
    "spec.source.kafka.onDataLoss",
)
"""Sections that came after the first release, as in ``crd.LATER_SECTIONS``."""

ONE_SOURCE: tuple[str, str] = (
    (
        "(has(self.kafka) ? 1 : 0) + (has(self.files) && size(self.files) > 0 ? 1 : 0)"
        " + (has(self.landed) ? 1 : 0) == 1"
    ),
    "exactly one of kafka, files and landed is needed",
)
ONE_WAY_TO_NAME_TOPICS: tuple[str, str] = (
    (
        "(has(self.topics) && size(self.topics) > 0)"
        " != (has(self.topicPattern) && size(self.topicPattern) > 0)"
    ),
    "exactly one of topics and topicPattern is needed",
)
