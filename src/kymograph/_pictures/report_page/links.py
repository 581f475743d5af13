"""Links between claims and their evidence: the charts, tables and runs that a verdict rests on, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kymograph._claims.claim import Measure
from kymograph._claims.verdict import Verdict
from kymograph._pictures.report_page.charts import Chart
from kymograph._pictures.report_page.sections import Section, has_settings
from kymograph._pictures.report_page.verdicts import ClaimView
from kymograph._runs.declaration import Declaration, SeriesDisplay
from kymograph._runs.spec import slug


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
