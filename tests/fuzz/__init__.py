"""Decoders beside independent references, on random schemas and payloads (``make fuzz``).

A decoder is a module or package of this one, named in ``DECODERS``, with

- ``CASES``, a strategy of Hypothesis whose values show themselves in full by ``repr``, and
- ``check(case)``, which raises AssertionError where the decoder and the reference differ, and
  returns words for what the case reached, which are counted.

``make test`` checks a few cases of each, always the same ones (``tests/properties``).
"""

DECODERS = ("protobuf", "avro", "thrift", "messagepack", "texts", "json", "hostile")
