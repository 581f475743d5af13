"""The evidence behind the published tables: judged again, it gives the pages in the docs, to the letter."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kymograph._sharing.verify import all_hold, verify_bundle

ROOT = Path(__file__).parents[2]
MOST_BYTES = 10 * 10**6


def _verdict_pages():
    """Imports the module that writes the pages; docs/_extensions is no package."""
    path = ROOT / "docs" / "_extensions" / "verdict_pages.py"
    spec = importlib.util.spec_from_file_location("verdict_pages", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages = _verdict_pages()


@pytest.mark.slow
@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_the_page_of_verdicts_is_what_its_evidence_gives(page) -> None:
    if not page.evidence.exists():
        pytest.skip(f"the runs behind {page.name} are not in evidence/ yet")
    assert pages.page_from_evidence(page) == page.path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("bundle", sorted((ROOT / "evidence").glob("*.zip")), ids=lambda path: path.stem)
def test_the_evidence_verifies_and_says_what_cannot_be_checked(bundle: Path) -> None:
    results = verify_bundle(bundle)
    assert all_hold(results)
    (thin,) = [str(result) for result in results if result.note and "thin" in result.what]
    assert "not checked are trained networks and the series" in thin


def test_the_evidence_is_small_enough_to_keep_and_every_part_of_it_has_a_page() -> None:
    bundles = sorted((ROOT / "evidence").glob("*.zip"))
    assert sum(path.stat().st_size for path in bundles) <= MOST_BYTES
    assert {path.name for path in bundles} <= {page.bundle for page in pages.PAGES} and len(bundles) >= 2
