"""One self-contained HTML page of stored runs and their verdicts, which opens from disk without network access."""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kymograph.claims.verdict import Verdicts
from kymograph.figures.mathematics import html_mathematics
from kymograph.report.assets import EARLY, policy, script, style, template
from kymograph.report.claim_order import RANK, ordered
from kymograph.report.claim_view import ClaimView, claim_view
from kymograph.report.dot_plot import sampled_by_rank
from kymograph.report.explained import WORDS, meaning
from kymograph.report.forest import forest_axis, forest_ticks
from kymograph.report.links import link_claims, runs_id
from kymograph.report.methods import methods
from kymograph.report.provenance import damaged_runs, environments, failed_runs, run_ids
from kymograph.report.sections import section_of
from kymograph.report.verdict_table import judged_text
from kymograph.runs.archive import Damaged
from kymograph.runs.declaration import Declaration
from kymograph.runs.files import make_directory, write_atomically
from kymograph.runs.planned import read_plan
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.studies.loading import declaration_of
from kymograph.wording import counted

TITLE = "Training dynamics: runs and verdicts"


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
    """Writes the page of `build_page` to ``path`` atomically; returns the path."""
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
    """Returns the page as HTML; pages of the same runs differ only in ``now``, the time stamp.

    An `Archive` has all the arguments, so that no file is read twice:

        archive = Archive.open("runs").checked()
        build_page(archive.store, verdicts, declarations=archive.declarations, damaged=archive.damaged,
                   planned=archive.planned, now="today")

    Args:
        store: the runs to show.
        verdicts: the verdicts on them.
        declarations: the studies' declarations; default: those stored with the runs.
        damaged: runs whose records could not be read.
        planned: every run ever planned; default: the plan stored with the runs.
        title: the page's title.
        now: the time stamp.
    """
    import jinja2

    known = store.declarations if declarations is None else declarations
    declared = {name: declaration_of(name, known) for name in store.studies}
    declared = dict(sorted(declared.items(), key=lambda item: (item[1].order, item[0])))
    if planned is None:
        planned = [] if store.root is None else read_plan(store.root)
    claims = _claims(verdicts, declared)
    sections = [
        section_of(store, one, [verdict.settings for verdict in verdicts if verdict.claim.study == one.name])
        for one in declared.values()
    ]
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(template),
    )
    environment.filters |= {"data": data_block, "math": html_mathematics, "meaning": meaning}
    css, code = style(), script()
    findings = Counter(verdict.outcome for verdict in verdicts if verdict.claim.kind is None)
    occurring = {verdict.outcome for verdict in verdicts}
    return environment.get_template("report.html").render(
        title=title,
        now=now,
        policy=policy([css], [EARLY, code]),
        style=Markup(css),
        early=Markup(EARLY),
        script=Markup(code),
        store=store,
        claims=claims,
        judged=judged_text(verdicts),
        links=link_claims(claims, sections, declared),
        axis=forest_axis(),
        ticks=forest_ticks(),
        runs_id=runs_id,
        labels={name: one.label for name, one in declared.items()},
        words=_words(verdicts),
        rows=_rows(verdicts),
        citation=citation(title, now, store),
        counts=[(str(outcome), findings[outcome]) for outcome in RANK if findings[outcome]],
        manipulation_checks=len(verdicts) - sum(findings.values()),
        outcomes=[str(outcome) for outcome in RANK if outcome in occurring],
        claimed=list(dict.fromkeys(verdict.claim.study for verdict in verdicts)),
        sections=sections,
        methods=methods(store, verdicts, declared, damaged, planned),
        environments=environments(store),
        ids=run_ids(store),
        failed=failed_runs(store),
        damaged=damaged_runs(damaged),
    )


def _claims(verdicts: Verdicts, declared: Mapping[str, Declaration]) -> list[ClaimView]:
    """Returns the claims in page order, each with a unique id."""
    ids, claims = Counter[str](), []
    for group in ordered(list(verdicts)):
        for index, verdict in enumerate(group):
            declaration = declared.get(verdict.claim.study, Declaration(verdict.claim.study))
            view = claim_view(verdict, declaration)
            ids[view.id] += 1
            own = view.id if ids[view.id] == 1 else f"{view.id}-{ids[view.id]}"
            claims.append(replace(view, id=own, twin=index > 0))
    return claims


def citation(title: str, now: str, store: Store) -> str:
    """Returns the page's citation: title, time, software version, runs and source hash."""
    codes = sorted({str(run.provenance["code"]) for run in store if "code" in run.provenance})
    source = f", source hash {' and '.join(codes)}" if codes else ""
    studies = " and ".join(filter(None, (", ".join(store.studies[:-1]), *store.studies[-1:])))
    version = importlib.metadata.version("kymograph")
    return (
        f"{title} [report]. Built {now} with Kymograph {version} (Kymograph contributors) from "
        f"{counted(len(store.finished), 'finished run')} of {studies}{source}."
    )


def _words(verdicts: Verdicts) -> list[tuple[str, str]]:
    """Returns the terms on the page that need an explanation, with their explanations."""
    used = " ".join(f"{one.outcome} {one.registration} {one.setup} {one.claim.kind or ''} margin" for one in verdicts)
    return [(word, text) for word, text in WORDS.items() if word in used]


def _rows(verdicts: Verdicts) -> list[dict[str, Any]]:
    """Returns the verdicts as ``judge --json`` writes them, with at most `MOST_SEEDS` seeds each."""
    rows = []
    for verdict in verdicts:
        kept = {point.seed for point in sampled_by_rank(verdict.points)}
        row = verdict.row()
        row["points"] = [point for point in row["points"] if point["seed"] in kept]
        rows.append(row)
    return rows


def data_block(value: Any) -> Markup:
    """Returns ``value`` as JSON, escaped so that it is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
