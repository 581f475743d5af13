"""One self-contained HTML page of stored runs and their verdicts, which opens from disk without network access."""

from __future__ import annotations

import base64
import datetime
import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kymograph.claims.claim import Measure
from kymograph.claims.verdict import Verdict, Verdicts
from kymograph.errors import KymographError
from kymograph.io.writing import make_directory, write_atomically
from kymograph.pictures.report.charts import Chart
from kymograph.pictures.report.forest import forest_axis, forest_ticks
from kymograph.pictures.report.methods import environments, methods, runs_by_arm
from kymograph.pictures.report.sections import Section, has_settings, section_of
from kymograph.pictures.report.verdicts import RANK, ClaimView, claim_view, ordered, sampled_by_rank
from kymograph.pictures.styles import COLOURS, DASHES, html_mathematics
from kymograph.pictures.verdict_table import judged_text
from kymograph.runs.archive import Archive, Damaged
from kymograph.runs.declaration import Declaration, SeriesDisplay
from kymograph.runs.history import planned_runs
from kymograph.runs.spec import RunSpec, slug
from kymograph.runs.store import Store
from kymograph.studies.loading import declaration_of
from kymograph.wording import counted

SCRIPTS = ("number.js", "page.js", "claims.js", "charts.js", "files.js")
# Runs before the page is drawn, so that the theme does not flash; elements that need scripts show only if they run.
EARLY = (
    'document.documentElement.classList.add("js");'
    'try{var t=localStorage.getItem("kymograph-theme");if(t)document.documentElement.dataset.theme=t}catch(e){}'
)


def template(name: str) -> str:
    """Returns the text of one of the page's files."""
    return (resources.files("kymograph.pictures.report") / "templates" / name).read_text(encoding="utf-8")


def script() -> str:
    """Returns the page's script, its parts wrapped in one function so that they define no global names."""
    parts = "\n".join(template(name) for name in SCRIPTS)
    return f'(function () {{\n"use strict";\n{parts}\n}})();'


def colour_rules() -> tuple[str, str, str]:
    """Returns CSS variables with the arms' colours, for the light theme and, lightened, the dark one, and classes."""
    light = "".join(f"--c{index}:{colour};" for index, colour in enumerate(COLOURS))
    dark = "".join(f"--c{index}:{_lighter(colour)};" for index, colour in enumerate(COLOURS))
    return light, dark, "".join(f".c{index}{{--c:var(--c{index})}}" for index in range(len(COLOURS)))


def arm_colours() -> str:
    """Returns a style sheet with the arms' colours that follows the system's theme."""
    light, dark, classes = colour_rules()
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{classes}"


def style() -> str:
    """Returns the style sheet with the figures' colours, lightened in the dark theme to keep their contrast."""
    light, dark, classes = colour_rules()
    classes += "".join(
        f".mean.d{index}{{stroke-dasharray:{' '.join(f'{part:g}' for part in dash)}}}"
        for index, dash in enumerate(DASHES)
        if dash
    )
    sheet = template("report.css").replace("/*light colours*/", light).replace("/*arms*/", classes)
    before, rest = sheet.split("/*dark*/")
    block, after = rest.split("/*end dark*/")
    block = block.replace("/*dark colours*/", dark)
    return (
        f"{before}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{block}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{block}}}}}{after}"
    )


def _lighter(colour: str, share: float = 0.25) -> str:
    """Returns a colour mixed with white; black, which would vanish on a dark page, becomes almost white."""
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    share = 0.92 if not any(parts) else share
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Returns a content security policy that allows this page's own style and scripts and nothing else."""

    def hashes(texts: Sequence[str]) -> str:
        digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; img-src data:; style-src {hashes(styles)}; script-src {hashes(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )


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
    "script": "Judged on runs set up as in the research script behind the study, with the script's quantities.",
    "repaired": "Judged with quantities, data or arms that repair the script's flaws.",
    "transfer": "The script's claim, judged on data other than the script's.",
    "altered": "The script's claim, judged at settings other than the script's.",
    "own": "A claim of the study's author.",
}


def meaning(word: str) -> str:
    """Returns the explanation of a term; empty if it needs none."""
    return WORDS.get(word, next((text for start, text in WORDS.items() if start in word), ""))


@dataclass(frozen=True)
class Link:
    """A link to another place on the page."""

    to: str
    """The id of an element."""
    text: str
    outcome: str = ""
    """The verdict, if the link leads to a claim."""


@dataclass
class Links:
    """All links between claims, charts and runs; each key is the id of an element."""

    charts: dict[str, list[Link]] = field(default_factory=dict)
    """From claims to charts and tables."""
    runs: dict[str, list[Link]] = field(default_factory=dict)
    """From claims to the runs of their arms."""
    back: dict[str, list[Link]] = field(default_factory=dict)
    """From charts, studies and runs to claims."""

    def claims_at(self, element_id: str) -> list[Link]:
        """Returns links to the claims that rest on the element with the id ``element_id``."""
        return self.back.get(element_id, [])


def link_claims(
    claims: Iterable[ClaimView], sections: Sequence[Section], declarations: Mapping[str, Declaration]
) -> Links:
    """Returns the links between claims and their evidence, for the studies on the page."""
    links, by_name = Links(), {section.name: section for section in sections}
    for claim in claims:
        verdict = claim.verdict
        section = by_name.get(verdict.claim.study)
        if section is None:
            continue
        declaration = declarations[section.name]
        charts = list(dict.fromkeys(_evidence_links(verdict, section, declaration)))
        arms = dict.fromkeys(side.arm for side in verdict.claim.sides)
        runs = [Link(runs_id(section.name, arm), declaration.label(arm)) for arm in arms]
        links.charts[claim.id], links.runs[claim.id] = charts, runs
        back = Link(claim.id, verdict.claim.name, str(verdict.outcome))
        for element_id in dict.fromkeys([section.id, *(link.to for link in [*charts, *runs])]):
            links.back.setdefault(element_id, []).append(back)
    return links


def runs_id(study: str, arm: str) -> str:
    """Returns the id of the element that lists an arm's runs."""
    return f"runs-{slug(study)}-{slug(arm)}"


def _evidence_links(verdict: Verdict, section: Section, declaration: Declaration) -> Iterable[Link]:
    """Yields links to the charts of what the claim measures, or else to the table of headline numbers."""
    for side in verdict.claim.sides:
        named = {**verdict.settings, **side.where}
        settings = (setting for setting in section.settings if not setting.superseded)
        setting = next((setting for setting in settings if has_settings(setting.settings, named, declaration)), None)
        if setting is None:
            continue
        charts = [chart for chart in setting.charts if shows(chart, side.measure, declaration)]
        yield from (Link(chart.id, chart.title) for chart in charts)
        if not charts and setting.headlines.rows:
            yield Link(f"{setting.id}-numbers", "Headline numbers")


def shows(chart: Chart, measure: Measure, declaration: Declaration) -> bool:
    """Returns whether a chart shows the series that a measure is taken from."""
    if measure.reduce is not None:
        return measure.name in chart.series
    return series_of(measure.name, declaration.series, chart.series) in chart.series


def series_of(number: str, displays: Sequence[SeriesDisplay], present: Sequence[str]) -> str | None:
    """Returns the series that a summary number is taken from: as declared in ``options``, or as its name suggests.

    >>> series_of("final_loss", (), ["loss", "os"])
    'loss'
    """
    for display in displays:
        if number == display.options.get("observed") or number in display.options.get("numbers", ()):
            return display.series
    words = f"_{number}_"
    named = [
        name for name in dict.fromkeys([*(display.series for display in displays), *present]) if f"_{name}_" in words
    ]
    return max(named, key=len, default=None)


TITLE = "Training dynamics: runs and verdicts"


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
        planned: every run ever planned; default: those in the log.
        title: the page's title.
        now: the time stamp.
    """
    import jinja2

    stored = store.declarations if declarations is None else declarations
    declared = {name: declaration_of(name, stored) for name in store.studies}
    declared = dict(sorted(declared.items(), key=lambda item: (item[1].order, item[0])))
    if planned is None:
        planned = [] if store.root is None else planned_runs(store.root)
    claims = _claims(verdicts, declared)
    sections = [
        section_of(store, declaration, [verdict.settings for verdict in verdicts if verdict.claim.study == name])
        for name, declaration in declared.items()
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
        labels={name: declaration.label for name, declaration in declared.items()},
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


def _words(verdicts: Verdicts) -> list[tuple[str, str]]:
    """Returns the terms on the page that need an explanation, with their explanations."""
    used = " ".join(
        f"{verdict.outcome} {verdict.registration} {verdict.setup} {verdict.claim.kind or ''} margin"
        for verdict in verdicts
    )
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


def write_report(
    archive: Archive, verdicts: Verdicts, path: Path, *, title: str = TITLE, only: Collection[str] | None = None
) -> Path:
    """Writes the page of an archive's runs, or of those with ids in ``only``, and their verdicts; returns its path."""
    runs = [run for run in archive.store if only is None or run.id in only]
    if not runs:
        root = archive.root
        raise KymographError(f"{root} contains no readable run; make some with `kymograph run STUDY --out {root}`")
    page = build_page(
        Store(runs, archive.root),
        verdicts,
        declarations=archive.declarations,
        damaged=archive.damaged,
        planned=archive.planned,
        title=title,
        now=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )
    make_directory(path.parent)
    write_atomically(path, page.encode("utf-8", "replace"))
    return path
