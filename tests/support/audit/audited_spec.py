"""The auditor's own models of what the writer's models say: both read the same document."""

from collections.abc import Mapping
from typing import overload

from landfall.api import spec as writers
from landfall.api.pod_spec import Model
from landfall_audit import spec as auditors

KINDS: Mapping[type[Model], type[auditors.SpecSection]] = {
    writers.ConsumerGroup: auditors.AuditedGroup,
    writers.GroupSpec: auditors.AuditedSpec,
    writers.Output: auditors.OutputSection,
    writers.Root: auditors.RootSection,
    writers.Feed: auditors.FeedSection,
    writers.Column: auditors.ColumnSection,
}
"""The auditor's model of each of the writer's."""


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
    return KINDS[type(model)].model_validate(model.model_dump(mode="json", by_alias=True))
