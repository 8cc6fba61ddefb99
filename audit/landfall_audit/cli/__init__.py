"""``landfall-audit``, which is ``landfall audit`` where Landfall is installed as well."""

from collections.abc import Sequence

from landfall_audit.cli import arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parsed = arguments.parser().parse_args(argv)
    from landfall_audit.cli.command import audit  # noqa: PLC0415  # help must not wait for Arrow

    return audit(parsed)
