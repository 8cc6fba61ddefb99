"""How the objects of a topic are read, and its records routed."""

from dataclasses import dataclass

from landfall_audit.objects import rows
from landfall_audit.objects.rows import FormatNotSupported, Rows
from landfall_audit.payloads import Schemas, expected
from landfall_audit.route_evaluator import RouteEvaluator, RouteNotSupported
from landfall_audit.spec import AuditedSpec


@dataclass(frozen=True)
class Readers:
    """How objects of a topic are read and its records routed; None where not supported."""

    rows: Rows | None
    route: RouteEvaluator | None

    @classmethod
    def of(cls, spec: AuditedSpec, schemas: Schemas) -> "Readers":
        """How to read what this group lands."""
        try:
            found = rows.rows_of(spec, schemas)
        except FormatNotSupported:
            return cls(None, None)
        try:
            return cls(found, RouteEvaluator.of(spec, expected.opened(spec, schemas)))
        except RouteNotSupported:
            return cls(found, None)
