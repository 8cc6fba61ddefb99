"""Writes the pages and pictures of ``docs/`` generated from the code; ``make crds`` calls it."""

from dev.docs.files import DOCS, generated


def main() -> None:
    """Write the files that differ, so that a watching build sees only these."""
    for name, text in generated().items():
        file = DOCS / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


if __name__ == "__main__":
    main()
