"""The auditor's own models of what the writer's models say: both read the same document."""

from typing import TypeVar, overload

from landfall.api import spec as writers
from landfall.api.pod_spec import Model
from landfall_audit import spec as auditors

Read = TypeVar("Read", bound=auditors.SpecSection)


@overload
def for_auditor(model: writers.ConsumerGroup) -> auditors.AuditedGroup: ...
@overload
def for_auditor(model: writers.GroupSpec) -> auditors.AuditedSpec: ...
@overload
def for_auditor(model: writers.Output) -> auditors.OutputSection: ...
@overload
def for_auditor(model: writers.Root) -> auditors.RootSection: ...
@overload
def for_auditor(model: writers.Feed) -> auditors.FeedSection: ...
@overload
def for_auditor(model: writers.Column) -> auditors.ColumnSection: ...
def for_auditor(model: Model) -> auditors.SpecSection:
    """Return what the auditor reads in the document of a model."""
    kind: type[auditors.SpecSection] = getattr(auditors, type(model).__name__)
    return kind.model_validate(model.model_dump(mode="json", by_alias=True))
