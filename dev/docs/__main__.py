"""Writes every page and picture of ``docs/`` that is made from the code; ``make crds`` calls it."""

from dev.docs.files import DOCS, generated


def main() -> None:
    """Write what differs, so that a build that watches sees only that."""
    for name, text in generated().items():
        file = DOCS / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


if __name__ == "__main__":
    main()
