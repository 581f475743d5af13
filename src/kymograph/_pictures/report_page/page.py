"""One self-contained HTML page of stored runs and their verdicts, which opens from disk without network access."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kymograph._claims.claim import Claim
from kymograph._claims.judge import judge
from kymograph._claims.verdict import Verdicts
from kymograph._errors import KymographError
from kymograph._io.writing import make_directory, write_atomically
from kymograph._pictures.report_page.assets import EARLY, policy, script, style, template
from kymograph._pictures.report_page.forest import forest_axis, forest_ticks
from kymograph._pictures.report_page.links import link_claims, runs_id
from kymograph._pictures.report_page.methods import environments, methods, runs_by_arm
from kymograph._pictures.report_page.sections import section_of
from kymograph._pictures.report_page.verdicts import RANK, ClaimView, claim_view, ordered, sampled_by_rank
from kymograph._pictures.styles import html_mathematics
from kymograph._pictures.verdict_table import judged_text
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.store import Store
from kymograph._studies.loading import declaration_of, registered_study
from kymograph._studies.study import Study
from kymograph._wording import counted

WORDS: Mapping[str, str] = {
    "SUPPORTED": "The runs show the claimed effect, beyond the claim's margin, after correction for all claims of the "
    "study.",
    "REFUTED": "The runs show the opposite: an effect in the other direction, or one beyond the margin where none was "
    "claimed.",
    "EQUIVALENT": "The effect is shown to be smaller than the margin in either direction. It need not be zero.",
    "INCONCLUSIVE": "These seeds show neither the effect nor its absence. More seeds may decide.",
    "INVALID": "A validity check failed or runs are missing, so the claim cannot be judged on these runs.",
    "registered": "The claim was registered, with its margin, before the runs existed.",
    "post hoc": "The claim was made after runs that it is judged on existed, and may have been suggested by them.",
    "changed after runs existed": "The claim was registered before the runs, but has been changed since.",
    "manipulation check": "True by construction if the arms work as intended; not a finding.",
    "margin": "The smallest effect that matters, stated with the claim before the runs.",
}
OWN = {"own": "A claim of the study's author."}


def meaning(words: Mapping[str, str], word: str) -> str:
    """Returns the explanation of a term among ``words``; empty if it needs none."""
    return words.get(word, next((text for start, text in words.items() if start in word), ""))


def _words_of(studies: Iterable[Study[Any] | None]) -> dict[str, str]:
    """Returns the page's terms with their explanations; of two studies that explain one label, the first is right."""
    labels: dict[str, str] = {}
    for study in studies:
        labels = {**({} if study is None else study.setup_meanings), **labels}
    return {**WORDS, **labels, **OWN}


TITLE = "Training dynamics: runs and verdicts"


def build_page(
    store: Store,
    verdicts: Verdicts,
    *,
    studies: Iterable[Study[Any]] = (),
    title: str = TITLE,
    now: str,
) -> str:
    """Returns the page as HTML; pages of the same runs differ only in ``now``, the time stamp.

        directory = Directory("runs").checked()
        build_page(directory.store, judge(directory), now="today")

    Args:
        store: the runs to show; what else is known about them comes from their directory.
        verdicts: the verdicts on them.
        studies: user-defined studies, for what their code says about numbers and set-ups; built-in ones are known.
        title: the page's title.
        now: the time stamp.
    """
    import jinja2

    declared = {name: declaration_of(name, store.declarations) for name in store.studies}
    declared = dict(sorted(declared.items(), key=lambda item: (item[1].order, item[0])))
    planned, damaged = ((), ()) if store.directory is None else (store.directory.planned, store.directory.damaged)
    by_name = {study.name: study for study in studies}
    study_code = {
        name: by_name.get(name) or registered_study(name)
        for name in dict.fromkeys([*declared, *(verdict.claim.study for verdict in verdicts)])
    }
    words = _words_of(study_code.values())
    claims = _claims(verdicts, declared)
    sections = [
        section_of(
            store,
            declaration,
            [verdict.settings for verdict in verdicts if verdict.claim.study == name],
            {} if (study := study_code[name]) is None else study.column_notes,
        )
        for name, declaration in declared.items()
    ]
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(template),
    )
    environment.filters |= {"data": data_block, "math": html_mathematics, "meaning": functools.partial(meaning, words)}
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
        labels={name: declaration.label for name, declaration in declared.items()},
        words=_used_words(words, verdicts),
        rows=_rows(verdicts),
        citation=citation(title, now, store),
        counts=[(str(outcome), findings[outcome]) for outcome in RANK if findings[outcome]],
        manipulation_checks=len(verdicts) - sum(findings.values()),
        outcomes=[str(outcome) for outcome in RANK if outcome in occurring],
        claimed=list(dict.fromkeys(verdict.claim.study for verdict in verdicts)),
        sections=sections,
        methods=methods(store, verdicts, declared, damaged, planned),
        environments=environments(store),
        runs_by_arm=runs_by_arm(store),
        failed=store.failed.runs,
        damaged=damaged,
    )


def _claims(verdicts: Verdicts, declared: Mapping[str, Declaration]) -> list[ClaimView]:
    """Returns the claims in page order, each with a unique id."""
    ids, claims = Counter[str](), []
    for group in ordered(list(verdicts)):
        for index, verdict in enumerate(group):
            declaration = declared.get(verdict.claim.study, Declaration(verdict.claim.study))
            view = claim_view(verdict, declaration)
            ids[view.id] += 1
            unique = view.id if ids[view.id] == 1 else f"{view.id}-{ids[view.id]}"
            claims.append(replace(view, id=unique, twin=index > 0))
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


def _used_words(words: Mapping[str, str], verdicts: Verdicts) -> list[tuple[str, str]]:
    """Returns those of the ``words`` that occur on the page, with their explanations."""
    used = " ".join(
        f"{verdict.outcome} {verdict.registration} {verdict.setup} {verdict.claim.kind or ''} margin"
        for verdict in verdicts
    )
    return [(word, text) for word, text in words.items() if word in used]


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


def report(
    runs: Directory | Store | str | Path,
    output: str | Path = "report.html",
    *,
    claims: Iterable[Claim] | str | Path | None = None,
    studies: Iterable[Study[Any]] = (),
    title: str = TITLE,
) -> Path:
    """Judges runs and writes them, with their verdicts, as one self-contained page; returns its path.

    >>> ky.report("runs", "pages/warmup.html", title="Does warm-up help?")
    PosixPath('pages/warmup.html')

    Args:
        runs: the directory of the runs, or a store of some of them.
        output: the file to write; its directory is made.
        claims: claims of your own, or a TOML or Python file of them; default: those of the studies.
        studies: user-defined studies, whose code states their claims and explains their numbers.
        title: the page's title.
    """
    known = list(studies)
    if not isinstance(runs, Store):
        directory = runs if isinstance(runs, Directory) else Directory(runs).checked()
        verdicts = judge(directory, claims, studies=known)
        return write_report(directory, verdicts, Path(output), title=title, studies=known)
    if runs.root is None:
        raise KymographError("these runs are in no directory; open one with Store.open")
    directory, chosen = Directory(runs.root).checked(), {run.id for run in runs}
    verdicts = judge(runs, claims, studies=known)
    return write_report(directory, verdicts, Path(output), title=title, only=chosen, studies=known)


def write_report(
    directory: Directory,
    verdicts: Verdicts,
    path: Path,
    *,
    title: str = TITLE,
    only: Collection[str] | None = None,
    studies: Iterable[Study[Any]] = (),
) -> Path:
    """Writes the page of a directory's runs, or of those with ids in ``only``, and their verdicts; returns its path.

    ``studies`` are user-defined studies, as for `build_page`.
    """
    runs = [run for run in directory.store if only is None or run.id in only]
    if not runs:
        root = directory.root
        raise KymographError(f"{root} contains no readable run; make some with `kymograph run STUDY --dir {root}`")
    page = build_page(
        Store(runs, directory.root, directory),
        verdicts,
        studies=studies,
        title=title,
        now=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )
    make_directory(path.parent)
    write_atomically(path, page.encode("utf-8", "replace"))
    return path
