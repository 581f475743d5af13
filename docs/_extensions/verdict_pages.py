"""Writes the pages of verdicts in docs/ from the evidence in evidence/: ``make verdicts``.

Nothing is trained: every page is judged again from a thin bundle of the runs behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kymograph import judge, load_study
from kymograph._runs.directory import Directory
from kymograph._runs.tuned import tuned_study
from kymograph._sharing.bundle import opened_runs
from kymograph_studies.verdict_page import verdict_page

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Page:
    """A page of verdicts, and the evidence behind it."""

    name: str
    bundle: str
    data: str
    command: str
    study: str = ""

    @property
    def evidence(self) -> Path:
        """The thin bundle of the runs."""
        return ROOT / "evidence" / self.bundle

    @property
    def path(self) -> Path:
        """The page in the docs."""
        return ROOT / "docs" / self.name


PAGES = (
    Page("verdicts.md", "demo.zip", "digits", "kymograph reproduce"),
    Page(
        "verdicts-rule-family.md", "rule-family.zip", "digits", "kymograph reproduce --study rule-family", "rule-family"
    ),
    Page("verdicts-cifar10.md", "cifar10.zip", "cifar10", "kymograph reproduce --data cifar10"),
)


def page_from_evidence(page: Page) -> str:
    """Returns the text of a page, judged from its evidence."""
    with opened_runs(page.evidence) as directory:
        runs = Directory(directory).checked()
        studies = [load_study(name) for name in runs.studies if tuned_study(name) is None]
        ids = {run.id for run in runs.store if tuned_study(run.study) is None}
        return verdict_page(judge(runs), runs, studies, ids, page.data, page.command, page.study)


def main() -> None:
    """Writes every page whose evidence is here; names those whose evidence is not."""
    for page in PAGES:
        if page.evidence.exists():
            page.path.write_text(page_from_evidence(page))
            print(page.path.relative_to(ROOT))
        else:
            print(f"{page.path.relative_to(ROOT)} stays as it is: there is no {page.evidence.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
