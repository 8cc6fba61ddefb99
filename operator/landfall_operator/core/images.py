"""The image of a group that names none: what it keeps, and what it follows. Pure.

A driver keeps the image that it was started with, even if the operator's default changes, unless
``upgrade.image`` is Follow: then another default is another revision, like an edit of
``spec.image``, with warm-up, watch and rollback.
"""

from collections.abc import Iterable

from landfall.api.spec import ConsumerGroup
from landfall_operator.api.revisions import digest_of
from landfall_operator.core.snapshot import GroupObservation, RecordedSpec


def followed(group: ConsumerGroup, records: Iterable[RecordedSpec], default: str) -> ConsumerGroup:
    """The spec that the operator works towards: it names the image where that has changed.

    A spec without an image runs with the image of its record. So the spec itself stays the right
    one for as long as that is the default; after that, it is the spec with the image in it.

    Args:
        group: the requested spec.
        records: the recorded specs of the group.
        default: the operator's present image for groups that name none.
    """
    spec = group.spec
    if not default or spec.image or spec.upgrade.image != "Follow":
        return group
    images = {record.digest: record.image for record in records}
    if images.get(digest_of(group)) == default:
        return group
    named = group.model_copy(update={"spec": spec.model_copy(update={"image": default})})
    is_new = digest_of(group) not in images and digest_of(named) not in images
    return group if is_new else named


def newer_image(observed: GroupObservation) -> str | None:
    """The operator's image, if the group names no other one and its driver runs another."""
    driver = observed.driver(observed.status.rollout.active)
    named = observed.spec.spec.image if observed.spec else None
    is_default = named in {None, observed.default_image}
    is_behind = driver is not None and driver.image != observed.default_image
    return observed.default_image or None if is_default and is_behind and observed.spec else None
