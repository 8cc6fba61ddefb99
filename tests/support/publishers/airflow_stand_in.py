"""What the example's DAG imports of Airflow, which cannot be installed beside Landfall.

Tasks are their functions, which a test calls; how they depend on each other is left to a real one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


class AirflowFailException(Exception):  # noqa: N818  # Airflow's name
    """A task has failed, and is not tried again."""


class AirflowSkipException(Exception):  # noqa: N818  # Airflow's name
    """A task is skipped."""


class _Node:
    """What is made of a task in a DAG."""

    def __rshift__(self, other: object) -> object:
        return other

    def as_teardown(self, **_: object) -> "_Node":
        return self


def modules(tasks: dict[str, Callable[..., Any]], url: str, token: str) -> dict[str, ModuleType]:
    """``airflow.sdk`` and its exceptions, by name.

    Args:
        tasks: gets the function of each task.
        url: of the driver, in the connection.
        token: its password.
    """

    @contextmanager
    def dag(*_: object, **options: object) -> Iterator[None]:
        yield

    def task(function: Callable[..., Any]) -> Any:
        tasks[function.__name__] = function
        node = _Node()
        called = lambda *_: node  # noqa: E731
        called.expand = lambda **_: node  # type: ignore[attr-defined]
        return called

    host, _, port = url.removeprefix("http://").partition(":")
    connection = SimpleNamespace(host=host, port=int(port), password=token)
    sdk, exceptions = ModuleType("airflow.sdk"), ModuleType("airflow.sdk.exceptions")
    vars(sdk).update(DAG=dag, task=task, Connection=SimpleNamespace(get=lambda _: connection))
    vars(exceptions).update(
        AirflowFailException=AirflowFailException, AirflowSkipException=AirflowSkipException
    )
    return {"airflow": ModuleType("airflow"), "airflow.sdk": sdk, exceptions.__name__: exceptions}
