"""Payloads that are damaged in the ways a payload is: cut, changed, too long, or no payload."""

from hypothesis import strategies as st


def damaged(payloads: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes | None]:
    """Payloads that are whole, cut short, with a byte changed, with more behind, or any bytes."""
    at = st.integers(0, 80)
    flipped = st.builds(
        lambda payload, at, byte: payload[:at] + bytes([byte]) + payload[at + 1 :],
        payloads,
        at,
        st.integers(0, 255),
    )
    cut = st.builds(lambda payload, at: payload[:at], payloads, at)
    longer = st.builds(bytes.__add__, payloads, st.binary(max_size=3))
    return st.one_of(payloads, flipped, cut, longer, st.binary(max_size=20), st.none())
