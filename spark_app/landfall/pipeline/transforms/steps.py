"""The steps of a group, put together: what they need from the decoder, and what follows them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from landfall.pipeline.decoders import Decoded, Path, Transform
from landfall.pipeline.transforms import BuiltInTransform, TransformContext, schema_after
from landfall.pipeline.transforms.names import column_of
from landfall.pipeline.transforms.payloads import JsonPayloads, routable


@dataclass(frozen=True)
class Steps:
    """The steps so far.

    Attributes:
        context: what the next step is built from.
        steps: in order.
        read: the paths that the decoder must extract for them, each once.
        rewrite: whether one of them changes columns or payloads.
    """

    context: TransformContext
    steps: tuple[Transform, ...] = ()
    read: tuple[Path, ...] = ()
    rewrite: bool = False

    def with_step(self, step: BuiltInTransform) -> "Steps":
        """Return the steps with one more, a built-in one.

        Raises:
            ValueError: it does not fit the typed columns that the steps before leave.
        """
        schema = self.context.schema
        after = schema if schema is None else schema_after(step, schema)
        return replace(
            self._and(step),
            context=replace(
                self.context, schema=after, written=self.context.written | set(step.writes)
            ),
            rewrite=self.rewrite or step.rewrites,
        )

    def with_plug_in(self, step: Transform) -> "Steps":
        """Return the steps with one more, a class of the user's, which keeps the typed columns."""
        return self._and(step)

    def unwritten(self, paths: Sequence[Path]) -> tuple[Path, ...]:
        """Return those paths that no step writes, so that only the decoder can provide them."""
        return tuple(path for path in paths if path not in self.context.written)

    def last(self, routed: Sequence[Path], *, are_payloads_written: bool) -> tuple[Transform, ...]:
        """Return what follows the steps in a group with typed columns.

        Args:
            routed: the paths that the router reads.
            are_payloads_written: whether the format writes payloads, and no columns.

        Raises:
            ValueError: the router reads what a step wrote and a later one left out.
        """
        if self.context.schema is None:
            return ()
        paths = tuple(path for path in routed if path in self.context.written)
        for path in paths:
            if not self.context.has_column(path):
                raise ValueError(f"{'.'.join(path)} is no column after the transforms")
        fields = (RoutedColumns(paths),) if paths else ()
        return (*fields, JsonPayloads()) if self.rewrite and are_payloads_written else fields

    def _and(self, step: Transform) -> "Steps":
        read = dict.fromkeys((*self.read, *self.unwritten(step.fields)))
        return replace(self, steps=(*self.steps, step), read=tuple(read))


@dataclass(frozen=True)
class RoutedColumns:
    """Gives the router the columns that steps have written, by the columns' names."""

    paths: tuple[Path, ...]
    fields: tuple[Path, ...] = ()

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the same rows, with the columns among their fields."""
        assert decoded.columns is not None, "only groups with typed columns have this step"
        routed = {path: routable(column_of(decoded.columns, path)) for path in self.paths}
        return replace(decoded, fields={**decoded.fields, **routed})
