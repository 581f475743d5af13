"""One self-contained HTML page of stored runs and their verdicts, which opens from disk and needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kymograph.claims.verdict import Outcome, Verdicts
from kymograph.figures.style import COLOURS
from kymograph.report.claim_view import claim_view
from kymograph.report.methods import methods
from kymograph.report.provenance import damaged_runs, environments, failed_runs, run_ids
from kymograph.report.sections import section_of
from kymograph.runs.archive import Damaged
from kymograph.runs.declaration import Declaration
from kymograph.runs.files import make_directory, write_atomically
from kymograph.runs.planned import read_plan
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.studies.loading import declaration_of

TITLE = "Training dynamics: runs and verdicts"
# Runs before the page is drawn, so that nothing flashes; elements that need a script show only if scripts run.
_EARLY = (
    'document.documentElement.classList.add("js");'
    'try{var t=localStorage.getItem("kymograph-theme");if(t)document.documentElement.dataset.theme=t}catch(e){}'
)


def write_page(
    store: Store,
    verdicts: Verdicts,
    path: Path,
    *,
    declarations: Mapping[str, Declaration] | None = None,
    damaged: Sequence[Damaged] = (),
    planned: Sequence[RunSpec] | None = None,
    title: str = TITLE,
    now: str,
) -> Path:
    """Writes the page that `build_page` returns to ``path`` by rename; returns the path."""
    content = build_page(
        store, verdicts, declarations=declarations, damaged=damaged, planned=planned, title=title, now=now
    )
    make_directory(path.parent)
    write_atomically(path, content.encode("utf-8", "replace"))
    return path


def build_page(
    store: Store,
    verdicts: Verdicts,
    *,
    declarations: Mapping[str, Declaration] | None = None,
    damaged: Sequence[Damaged] = (),
    planned: Sequence[RunSpec] | None = None,
    title: str = TITLE,
    now: str,
) -> str:
    """Returns the page as HTML; two pages of the same runs differ in ``now``, the time stamp, and in nothing else.

    An `Archive` has everything that is needed, so that no file is read twice:

        archive = Archive.open("runs").checked()
        build_page(archive.store, verdicts, declarations=archive.declarations, damaged=archive.damaged,
                   planned=archive.planned, now="today")

    Args:
        store: the runs to show.
        verdicts: what was judged of them.
        declarations: what the studies declare; default: what is stored with the runs.
        damaged: runs whose records could not be read.
        planned: every run that was ever planned; default: what is listed with the runs.
        title: the page's title.
        now: the time stamp.
    """
    import jinja2

    known = store.declarations if declarations is None else declarations
    declared = {name: declaration_of(name, known) for name in store.studies}
    declared = dict(sorted(declared.items(), key=lambda item: (item[1].order, item[0])))
    if planned is None:
        planned = [] if store.root is None else read_plan(store.root)
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_template),
    )
    environment.filters["data"] = data_block
    style, script = _style(), _template("report.js")
    findings = Counter(verdict.outcome for verdict in verdicts if verdict.claim.kind is None)
    occurring = {verdict.outcome for verdict in verdicts}
    return environment.get_template("report.html").render(
        title=title,
        now=now,
        policy=_policy([style], [_EARLY, script]),
        style=Markup(style),
        early=Markup(_EARLY),
        script=Markup(script),
        store=store,
        claims=[claim_view(index, verdict) for index, verdict in enumerate(verdicts)],
        counts=[(str(outcome), findings[outcome]) for outcome in Outcome if findings[outcome]],
        manipulation_checks=len(verdicts) - sum(findings.values()),
        outcomes=[str(outcome) for outcome in Outcome if outcome in occurring],
        claimed=list(dict.fromkeys(verdict.claim.study for verdict in verdicts)),
        sections=[
            section_of(store, one, [verdict.settings for verdict in verdicts if verdict.claim.study == one.name])
            for one in declared.values()
        ],
        methods=methods(store, verdicts, declared, damaged, planned),
        environments=environments(store),
        ids=run_ids(store),
        failed=failed_runs(store),
        damaged=damaged_runs(damaged),
    )


def data_block(value: Any) -> Markup:
    """Returns ``value`` as JSON that is safe inside a script element, whatever its texts say."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _template(name: str) -> str:
    return (resources.files("kymograph.report") / "templates" / name).read_text(encoding="utf-8")


def _style() -> str:
    """Returns the style sheet with the figures' colours; on black, each is mixed with white to keep its contrast."""
    light = "".join(f"--c{index}:{colour};" for index, colour in enumerate(COLOURS[:6]))
    dark = "".join(f"--c{index}:{_lighter(colour)};" for index, colour in enumerate(COLOURS[:6]))
    sheet = _template("report.css").replace("/*light colours*/", light)
    before, rest = sheet.split("/*dark*/")
    block, after = rest.split("/*end dark*/")
    block = block.replace("/*dark colours*/", dark)
    return (
        f"{before}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{block}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{block}}}}}{after}"
    )


def _lighter(colour: str, share: float = 0.25) -> str:
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def _policy(styles: list[str], scripts: list[str]) -> str:
    """Returns a content policy that lets this page's own style and scripts run and nothing else load."""

    def hashes(texts: list[str]) -> str:
        digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; img-src data:; style-src {hashes(styles)}; script-src {hashes(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )
