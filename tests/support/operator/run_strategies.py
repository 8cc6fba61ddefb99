"""Closed ranges of any kind, as drivers report them, and what is saved of a sleep."""

from datetime import timedelta

from hypothesis import strategies as st

from landfall.api.run_status import RunStatus, ScheduleStatus
from landfall_operator.api.status import IdleStatus
from tests.support.operator.cluster_model import START

_TIMES = st.integers(-1000, 100_000).map(lambda seconds: START + timedelta(seconds=seconds))
_COUNTS = st.integers(0, 10**12)

RUNS = st.builds(
    RunStatus,
    until=_TIMES.map(lambda time: time.isoformat()),
    began=st.just(START.isoformat()),
    ended=_TIMES.map(lambda time: time.isoformat()),
    records=_COUNTS,
    bad_records=_COUNTS,
    objects=_COUNTS,
    bytes=_COUNTS,
    left=st.sampled_from([(), ("clicks",), tuple(f"t{n}" for n in range(30))]),
    slot=st.integers(0, 9),
)
SCHEDULES = st.builds(
    ScheduleStatus,
    until=st.one_of(st.none(), st.just(START.isoformat())),
    waits=st.booleans(),
    runs=st.lists(RUNS, max_size=3).map(tuple),
)
IDLES = st.builds(
    IdleStatus,
    sleeping=st.booleans(),
    since=st.one_of(st.none(), _TIMES),
    next_look=st.one_of(st.none(), _TIMES),
)
