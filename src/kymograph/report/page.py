"""One self-contained HTML page of stored runs and their verdicts, which opens from disk and needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kymograph.claims.verdict import Outcome, Verdicts
from kymograph.figures.style import COLOURS
from kymograph.report import methods
from kymograph.report.evidence import evidence_of
from kymograph.report.grouping import in_order
from kymograph.report.sections import section_of
from kymograph.runs.files import make_directory, write_atomically
from kymograph.runs.store import Store

TITLE = "Training dynamics: runs and verdicts"
# Runs before the page is drawn, so that nothing flashes: what needs a script shows only if there is one.
_EARLY = (
    'document.documentElement.classList.add("js");'
    'try{var t=localStorage.getItem("kymograph-theme");if(t)document.documentElement.dataset.theme=t}catch(e){}'
)


def write_page(store: Store, verdicts: Verdicts, path: Path, *, title: str = TITLE, now: str) -> Path:
    """Writes the page to ``path`` by rename; returns the path."""
    content = build_page(store, verdicts, title=title, now=now)
    make_directory(path.parent)
    write_atomically(path, content.encode("utf-8", "replace"))
    return path


def build_page(store: Store, verdicts: Verdicts, *, title: str = TITLE, now: str) -> str:
    """Returns the page as HTML; two pages of the same runs differ in ``now``, the time stamp, and in nothing else."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_template),
    )
    environment.filters["data"] = data_block
    style, script = _style(), _template("report.js")
    counts = Counter(verdict.outcome for verdict in verdicts)
    evidence = [evidence_of(place, verdict) for place, verdict in enumerate(verdicts)]
    page = environment.get_template("report.html").render(
        title=title,
        now=now,
        policy=_policy([style], [_EARLY, script]),
        style=Markup(style),
        early=Markup(_EARLY),
        script=Markup(script),
        store=store,
        evidence=evidence,
        outcomes=[(str(outcome), counts[outcome]) for outcome in Outcome if counts[outcome]],
        claimed=list(dict.fromkeys(verdict.claim.study for verdict in verdicts)),
        sections=[section_of(store, study) for study in in_order(store.studies)],
        methods=methods.methods(store, verdicts),
        environments=methods.environments(store),
        ids=methods.run_ids(store),
        failures=methods.failures(store),
    )
    return page


def data_block(value: Any) -> Markup:
    """Returns ``value`` as JSON that can stand inside a script element, whatever its texts say."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _template(name: str) -> str:
    return (resources.files("kymograph.report") / "templates" / name).read_text(encoding="utf-8")


def _style() -> str:
    """Returns the style sheet with the figures' colours; on black, each is mixed with white to keep its contrast."""
    light = "".join(f"--c{place}:{colour};" for place, colour in enumerate(COLOURS[:6]))
    dark = "".join(f"--c{place}:{_lighter(colour)};" for place, colour in enumerate(COLOURS[:6]))
    sheet = _template("report.css").replace("/*light colours*/", light)
    before, rest = sheet.split("/*dark*/")
    block, after = rest.split("/*end dark*/")
    block = block.replace("/*dark colours*/", dark)
    return (
        f"{before}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{block}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{block}}}}}{after}"
    )


def _lighter(colour: str, share: float = 0.25) -> str:
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
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
