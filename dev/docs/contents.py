"""A hook of the site: the contents of a page show the last name of a field, and not its path.

The heading keeps the path, and headings are nested as fields are, so the contents are, too.
"""

import re
from collections.abc import Iterable

from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink

_PATH = re.compile(r"(?:spec|status)[\w.\[\]]*\.([\w\[\]]+)")


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Shorten the contents; MkDocs calls this for each page, and keeps the text it returns."""
    _shorten(page.toc)
    return html


def _shorten(links: Iterable[AnchorLink]) -> None:
    for link in links:
        if path := _PATH.fullmatch(link.title):
            link.title = path[1]
        _shorten(link.children)
