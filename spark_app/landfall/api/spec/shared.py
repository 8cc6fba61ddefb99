"""What several sections of the spec use."""

from landfall.api.pod_spec import Model
from landfall.api.values import DnsName


class SecretRef(Model):
    """Reference to a Kubernetes Secret. Outside Kubernetes, a folder with one file per key."""

    name: DnsName
    """Name of the Secret, in the namespace of the group."""


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names as they are.

    Raises:
        ValueError: a name is listed more than once.
    """
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"named twice: {', '.join(repeated)}")
    return names
