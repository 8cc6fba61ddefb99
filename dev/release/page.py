"""README.md of a release: what its files are, and how to check and install them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dev.release import sums

PURPOSES = {
    "landfall_kafka-": "Landfall: data plane, command line, operator",
    "landfall_kafka_native-": "the extension for the hot path",
    "landfall_audit-": "`landfall audit`",
    "landfall_migrate-": "`landfall migrate`",
    ".oci.tar": "image, as an OCI archive",
    ".tgz": "the chart",
    ".landfall.dev.yaml": "resource definition",
    ".schema.json": "schema for editors",
    "THIRD-PARTY.md": "licenses of what the image contains",
    "sbom.cdx.json": "bill of materials (CycloneDX)",
    "CHANGES.md": "what is new",
    sums.PUBLIC_KEY: "the public key; compare it with the one you know",
}
"""By the beginning or the end of a file's name; of two that fit, the first counts."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that the page reports.

    Attributes:
        version: of the release.
        commit: from which it was built.
        compiler: of the extension; empty if the release has no extension.
        digests: of the images' manifests, by target.
        signed: whether SHA256SUMS has a signature.
        left_out: what the release lacks, by the reason.
    """

    version: str
    commit: str
    compiler: str
    digests: Mapping[str, str]
    signed: bool
    left_out: Mapping[str, str]


def text(facts: Facts, files: Sequence[str]) -> str:
    """The page.

    Args:
        facts: of the release.
        files: the names of its files.
    """
    lines = [f"# Landfall {facts.version}", "", f"Built from commit {facts.commit}."]
    if facts.compiler:
        lines.append(f"The extension was compiled by {facts.compiler}.")
    lines += ["", "| file | is |", "|---|---|"]
    lines += [f"| `{name}` | {purpose(name)} |" for name in sorted(files)]
    if facts.digests:
        lines += ["", "The chart asks for the images by these digests:", ""]
        lines += [f"- `landfall-{target}@{digest}`" for target, digest in facts.digests.items()]
    if facts.left_out:
        lines += ["", "This release lacks:", ""]
        lines += [f"- {what}: {reason}" for what, reason in facts.left_out.items()]
    lines += ["", *_how_to_check(signed=facts.signed)]
    return "\n".join([*lines, ""])


def purpose(name: str) -> str:
    """Return what a file is.

    Raises:
        ValueError: no purpose is known of a file of this name.
    """
    for known, what in PURPOSES.items():
        if name.startswith(known) or name.endswith(known):
            return what
    raise ValueError(f"no purpose is known of {name}")


def _how_to_check(*, signed: bool) -> list[str]:
    check = ["    sha256sum --check --ignore-missing SHA256SUMS"]
    if not signed:
        return [
            "**This release is not signed.** Its sums show damage, not who built it:",
            "",
            *check,
        ]
    openssl = (
        f"    openssl pkeyutl -verify -pubin -inkey {sums.PUBLIC_KEY} -rawin -in {sums.SUMS} "
        f"-sigfile {sums.SIGNATURE}"
    )
    return ["Check the signature of the sums, then the sums:", "", openssl, *check]
