"""Unexpected exceptions of a stage, and the records that cause them.

A stage must not raise because of what a record holds: it rejects the record. If it raises all the
same, that is a bug in Landfall, in a library or in a plug-in. The records that cause it are found
by halving the chunk, and become dead letters, so that the rest lands. What lacks memory, disk or
network is no fault of a record: such exceptions, and ``LandfallError``, are passed on, as are those
that no single record causes.
"""

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import landfall
from landfall.errors import LandfallError

_ROOT = Path(landfall.__file__).parent
_MAX_CAUSES = 10
_PASSED_ON = (LandfallError, MemoryError, OSError)


class StageFault(Exception):  # noqa: N818  # it is raised only by ``stage``
    """A stage raised an exception that may be caused by a record.

    Attributes:
        stage: as of a ``BadRecord``.
        error: the exception.
    """

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(stage, str(error))
        self.stage = stage
        self.error = error

    @property
    def summary(self) -> str:
        """The kind of exception and where it was raised; quotes nothing of a record."""
        return f"{summary_of(self.error)}, please report it"


def summary_of(error: BaseException) -> str:
    """The kind of exception and where it was raised, without its text, which may quote a payload.

    Of an error of the system, such as a full disk, the text follows from its number and is shown.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {_shown(frames[-1])}" if frames else ""
    number = error.errno if isinstance(error, OSError) else None
    text = f": {os.strerror(number)}" if isinstance(number, int) else ""
    return f"unexpected {type(error).__name__}{place}{text}"


def stack_of(error: BaseException) -> str:
    """The traceback of an exception and of those that led to it, without their texts."""
    shown: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(shown) < _MAX_CAUSES:
        frames = traceback.extract_tb(cause.__traceback__)
        lines = (f"  {_shown(frame)} in {frame.name}" for frame in frames)
        shown.append("\n".join([f"{type(cause).__name__}, raised in", *lines]))
        hidden = None if cause.__suppress_context__ else cause.__context__
        cause = cause.__cause__ or hidden
    return "\nafter ".join(shown)


def _shown(frame: traceback.FrameSummary) -> str:
    path = Path(frame.filename)
    shown = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else Path(*path.parts[-2:])
    return f"{shown}:{frame.lineno}"


def is_panic(error: BaseException) -> bool:
    """Return whether the error is a panic of a Rust library, which PyO3 raises as no Exception."""
    return type(error).__name__ == "PanicException"


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Run a stage.

    Raises:
        StageFault: an exception that a record may have caused.
    """
    try:
        yield
    except StageFault:
        raise
    except BaseException as error:
        is_of_record = isinstance(error, Exception) and not isinstance(error, _PASSED_ON)
        if is_of_record or is_panic(error):
            raise StageFault(name, error) from error
        raise


def find_culprits(rows: int, run: Callable[[range], object]) -> dict[int, StageFault]:
    """Return the rows of a chunk that make a stage fail by themselves, with the fault of each.

    Args:
        rows: how many rows the chunk has.
        run: runs the stages on a part of the chunk; what it returns is not used.
    """
    culprits: dict[int, StageFault] = {}
    parts = [range(rows)]
    while parts:
        part = parts.pop()
        try:
            run(part)
        except StageFault as fault:
            if len(part) == 1:
                culprits[part.start] = fault
            else:
                middle = len(part) // 2
                parts += [part[:middle], part[middle:]]
    return culprits
