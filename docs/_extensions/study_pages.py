"""Directives for the studies' pages: arms from the code, verdicts from the pages that `kymograph reproduce` wrote.

```{study-arms} depth
```

```{study-verdicts} depth
```

```{study-numbers} rule-family
```
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kymograph import load_study
from kymograph._wording import markdown_table

COLUMNS = ("claim", "set-up", "verdict", "effect [95 % interval]", "why")
"""The columns of the verdict table that a study's page shows."""


def arm_table(study: str) -> str:
    """Returns a Markdown table of a study's default arms, and the number of its other arms."""
    arms = load_study(study).arms()
    shown = [arm for arm in arms if arm.default]
    table = markdown_table(["arm", ""], [[f"`{arm.name}`", arm.about] for arm in shown])
    more = len(arms) - len(shown)
    return f"{table.strip()}\n\n" + (f"And {more} more: `kymograph studies {study}`." if more else "")


def verdict_rows(study: str, page: str) -> list[list[str]]:
    """Returns the rows about a study from a page of verdicts, in the columns ``COLUMNS``."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    if not lines:
        return []
    header, *rows = [[cell.strip() for cell in line.replace("\\|", "\0").split("|")[1:-1]] for line in lines]
    columns, setup = [header.index(name) for name in COLUMNS], header.index("set-up")
    of_study = [row for row in rows if len(row) == len(header) and row[setup].split(",")[0] == study]
    return [[row[column].replace("\0", "\\|").removeprefix(f"{study}, ") for column in columns] for row in of_study]


def verdict_pages(study: str) -> dict[str, str]:
    """Returns the pages that may contain verdicts about a study, each with its data set."""
    alone = f"verdicts-{study}.md"  # for studies that a plain `kymograph reproduce` does not include
    return {"verdicts-cifar10.md": "CIFAR-10", "verdicts.md": "embedded data", alone: "embedded data"}


def number_table(study: str, page: str) -> str:
    """Returns the section with the numbers of a study's arms from a page of verdicts; empty if it has none."""
    _, _, after = page.partition(f"## Numbers of {study}\n")
    return after.partition("\n## ")[0].strip()


class _Table(SphinxDirective):
    required_arguments = 1

    def text(self, study: str) -> str:
        raise NotImplementedError

    def page(self, name: str) -> str:
        """Returns the text of a documentation page; empty if there is no such page."""
        path = Path(self.env.srcdir) / name
        self.env.note_dependency(str(path))
        return path.read_text() if path.exists() else ""

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        self.state.nested_parse(StringList(self.text(self.arguments[0]).splitlines(), "study"), 0, holder)
        return holder.children


class StudyArms(_Table):
    """The arms of a study."""

    def text(self, study: str) -> str:
        return arm_table(study)


class StudyVerdicts(_Table):
    """The verdicts on a study's claims."""

    def text(self, study: str) -> str:
        tables = []
        for name, where in verdict_pages(study).items():
            rows = verdict_rows(study, self.page(name))
            if rows:
                tables.append(f"On {where} ([all verdicts](../{name})):\n\n{markdown_table(COLUMNS, rows).strip()}")
        return "\n\n".join(tables) or "No claim of this study is in the tables of verdicts."


class StudyNumbers(_Table):
    """The numbers of a tuned study's arms."""

    def text(self, study: str) -> str:
        return "\n\n".join(filter(None, (number_table(study, self.page(name)) for name in verdict_pages(study))))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("study-arms", StudyArms)
    app.add_directive("study-verdicts", StudyVerdicts)
    app.add_directive("study-numbers", StudyNumbers)
    return {"parallel_read_safe": True}
