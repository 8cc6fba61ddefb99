"""The documentation builds as a site, and a reader without the internet sees all of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages.markdown import DOCS, ROOT

pytestmark = pytest.mark.xdist_group("site")
"""Only one worker builds it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix("") for page in DOCS.rglob("*.md")}
    places = {p.parent if p.name in {"index", "README"} else p for p in pages}

    assert [str(place) for place in places if not (site / place / "index.html").exists()] == []


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(
        r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^>]*"
    )

    elsewhere = {
        (page.parent.name, tag)
        for page in site.rglob("*.html")
        for tag in fetched.findall(page.read_text())
    }

    assert elsewhere == set()


@pytest.mark.slow
def test_the_contents_of_the_page_of_fields_have_names_and_no_paths(site: Path) -> None:
    page = (site / "reference" / "fields" / "index.html").read_text()
    shown = {
        re.sub(r"<[^>]*>", "", each).strip()
        for each in re.findall(r'<span class="md-ellipsis">(.*?)</span>', page, re.DOTALL)
    }

    assert {"spec", "onDataLoss", "files[]", "credentialsSecretRef"} <= shown
    assert [each for each in shown if each.startswith(("spec.", "status."))] == []
