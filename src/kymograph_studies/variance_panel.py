"""Sources of variance: the standard deviation of every headline number by source, with its 95 % interval.

This kind of panel compares runs with different settings, so it is drawn once per study, from all its current runs. The
display's ``options`` name the numbers: ``{"headlines": {"final_loss": "final loss", ...}}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from kymograph._claims.registration import registered_claims
from kymograph.figures import ArmStyle
from kymograph.panels import Chart, ChartRequest, Frame, Key, Panel, Scale, element, labels, picture, table_data
from kymograph.panels import number as as_text
from kymograph_studies.variance import (
    ALL,
    ORDER,
    ArmSpread,
    NumberSpread,
    SourceSpread,
    about_all,
    arm_spreads,
    compared_as_ratios,
    has_several_sources,
)

PART = {"about": "the standard deviation of headline numbers by source of variance", "order": 60, "scope": "study"}
LONGEST = 4.0
"""The longest axis, in units of the largest standard deviation: with few seeds, intervals can be enormous."""
LINE = 13
"""Pixels between the arms of one source."""
TITLE = "Sources of variance"
COLUMNS = (
    "arm", "number", "scale", "source", "n", "sd", "low", "high", "share of all", "share low", "share high",
    "varies it most", "p",
)  # fmt: skip


def variance_panel(request: ChartRequest) -> Chart | None:
    """Returns one picture per headline number; None unless some arm was run with at least two sources."""
    directory, studies = request.store.directory, request.store.studies
    headlines = request.display.options.get("headlines")
    if not isinstance(headlines, Mapping) or len(studies) != 1 or not has_several_sources(request.store.finished):
        return None
    registered = {} if directory is None else registered_claims(directory.covering_log, studies[0])
    ratios = compared_as_ratios(versions[-1] for versions in registered.values())
    arms = arm_spreads(request.store.finished, headlines, ratios)
    if not arms:
        return None
    panels, cut = [], False
    for key in headlines:
        for group in request.groups([arm.name for arm in arms]):
            numbers = {
                arm.name: number
                for arm in arms
                if arm.name in group.arms
                for number in arm.numbers
                if number.key == key
            }
            if not numbers:
                continue
            x = _scale(numbers.values())
            cut = cut or any(spread.high > x.high for number in numbers.values() for spread in number.sources)
            title = ", ".join(filter(None, (headlines[key], group.title)))
            styles = {arm: request.styles[arm] for arm in group.arms}
            panels.append(Panel(title, _picture(numbers, styles, x), _keys(numbers, styles)))
    return Chart(request.id, TITLE, tuple(panels), _caption(arms, cut), table_data(COLUMNS, [*_rows(arms)]))


def _frame(sources: int, arms: int) -> Frame:
    return Frame(height=8 + sources * _row_height(arms) + 38, left=88, top=8)


def _row_height(arms: int) -> int:
    return LINE * arms + 12


def _scale(numbers: Iterable[NumberSpread]) -> Scale:
    """Returns the axis from 0 to the end of the longest interval, but at most `LONGEST` times the largest deviation."""
    spreads = [spread for number in numbers for spread in number.sources]
    largest = max(spread.sd for spread in spreads)
    end = min(max(spread.high for spread in spreads), LONGEST * largest)
    left, _, width, _ = _frame(1, 1).box
    return Scale(0.0, 1.04 * end if end > 0 else 1.0, left, left + width)


def _keys(numbers: Mapping[str, NumberSpread], styles: Mapping[str, ArmStyle]) -> tuple[Key, ...]:
    keys = []
    for arm, style in styles.items():
        if arm in numbers:
            counts = sorted({spread.n for spread in numbers[arm].sources})
            n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
            keys.append(Key(style.label, style.colour, f"n = {n}", dash=style.dash))
    return tuple(keys)


def _picture(numbers: Mapping[str, NumberSpread], styles: Mapping[str, ArmStyle], x: Scale) -> Markup:
    """Returns the picture of one number: one row per source, with a dot and an interval per arm.

    An arm has the same position and colour in every picture, even where other arms lack the number.
    """
    present = dict.fromkeys(spread.source for number in numbers.values() for spread in number.sources)
    sources = [
        *(source for source in ORDER if source in present),
        *(source for source in present if source not in ORDER),
    ]
    frame, row = _frame(len(sources), len(styles)), _row_height(len(styles))
    left, top, width, _ = frame.box
    bottom = top + len(sources) * row
    parts: list[object] = []
    ticks = x.ticks(4)
    for tick, text in zip(ticks, labels(ticks), strict=True):
        parts.append(element("line", class_="grid", x1=x.at(tick), x2=x.at(tick), y1=top, y2=bottom))
        parts.append(element("text", text, x=x.at(tick), y=bottom + 15, text_anchor="middle"))
    parts.append(element("line", class_="axis", x1=left, x2=left + width, y1=bottom, y2=bottom))
    for position, source in enumerate(sources):
        middle = top + (position + 0.5) * row
        parts.append(element("text", source, class_="label", x=left - 8, y=middle + 4, text_anchor="end"))
        if source == ALL and len(sources) > 1:  # a line below it sets it off from the single sources
            end = top + row
            parts.append(element("line", class_="limit", x1=4, x2=left + width, y1=end, y2=end))
        for index, (arm, style) in enumerate(styles.items()):
            y = middle + (index - (len(styles) - 1) / 2) * LINE
            for spread in numbers[arm].sources if arm in numbers else ():
                if spread.source == source:
                    parts += _mark(style, spread, x, y)
    title = f"sd of {next(iter(numbers.values())).title}"
    axis = element("text", title, class_="label", x=left + width / 2, y=bottom + 33, text_anchor="middle")
    return picture(frame, f"{TITLE}: {title} by source, {', '.join(numbers)}", *parts, axis)


def _mark(style: ArmStyle, spread: SourceSpread, x: Scale, y: float) -> list[object]:
    """Returns a dot at the standard deviation, a line over its interval, and a target for the pointer."""
    arm, colour = style.label, style.colour
    low, high = x.at(min(spread.low, x.high)), x.at(min(spread.high, x.high))
    if spread.idle:
        tip = f"{arm}, {spread.source}: does nothing, all {spread.n} runs agree"
    else:
        interval = f"[{as_text(spread.low, 3)}, {as_text(spread.high, 3)}]"
        tip = f"{arm}, {spread.source}: sd {as_text(spread.sd, 3)} {interval}, n = {spread.n}"
        if spread.share is not None:
            share, least, most = (as_text(100 * part, 3) for part in spread.share)
            tip += f"; {share} % [{least}, {most}] of the variance of all"
    parts: list[object] = []
    if high > low:
        parts.append(element("line", class_=f"mean c{colour}", x1=low, x2=high, y1=y, y2=y))
    parts.append(element("circle", class_=f"dot c{colour}", cx=x.at(spread.sd), cy=y, r=3.6))
    if spread.idle:
        parts.append(element("text", "does nothing", x=x.at(0.0) + 9, y=y + 4))
    reach = max(high, x.at(spread.sd)) + 6
    hit = element("rect", class_="hit", data_tip=tip, x=low - 6, y=y - LINE / 2, width=reach - low + 6, height=LINE)
    return [*parts, hit]


def _caption(arms: Sequence[ArmSpread], cut: bool) -> str:
    numbers = [number for arm in arms for number in arm.numbers]
    sentences = [
        *_conclusions(arms),
        "Dots: standard deviation over the n runs in which only this source depends on the run's seed and the other "
        "sources have a fixed seed. Lines: its 95 % interval (chi-square, assuming normality).",
        about_all(arms),
    ]
    if any(number.log for number in numbers):
        sentences.append("A deviation of 0.1 for ln x is about 10 % of x; the others are in the number's own unit.")
    sentences.append(
        "A source is said to vary a number most if F tests at the 5 % level show that its variance exceeds every "
        "other's, corrected for choosing the largest and, within an arm, for several numbers (Holm)."
    )
    if any(spread.missing for number in numbers for spread in number.sources):
        sentences.append("Runs without a finite number are left out.")
    if cut:
        sentences.append("Where an interval touches the frame, it extends beyond the axis.")
    return " ".join(filter(None, sentences))


def _conclusions(arms: Sequence[ArmSpread]) -> list[str]:
    """Returns one sentence per distinct conclusion on what varies the numbers most, with the arms it holds for."""
    names_by_conclusion: dict[str, list[str]] = {}
    for arm in arms:
        labels_by_source: dict[str | None, list[str]] = {}
        for number in arm.numbers:
            labels_by_source.setdefault(number.dominant, []).append(number.label)
        undecided = labels_by_source.pop(None, [])
        parts = [f"{source} varies {_joined(labels)} most" for source, labels in labels_by_source.items()]
        if undecided:
            parts.append(f"no source clearly dominates {_joined(undecided)}")
        idle = [*dict.fromkeys(spread.source for number in arm.numbers for spread in number.sources if spread.idle)]
        if idle:
            parts.append(f"{_joined(idle)} {'does' if len(idle) == 1 else 'do'} nothing")
        names_by_conclusion.setdefault("; ".join(parts), []).append(arm.name)
    return [f"In {_joined(names)}, {conclusion}." for conclusion, names in names_by_conclusion.items()]


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _rows(arms: Sequence[ArmSpread]) -> Iterable[tuple[str | float | None, ...]]:
    for arm in arms:
        for number in arm.numbers:
            verdict = number.dominant or "undecided"
            scale = "ln" if number.log else "as it is"
            for spread in number.sources:
                deviation = (spread.n, spread.sd, spread.low, spread.high)
                share = spread.share or (None, None, None)
                yield arm.name, number.label, scale, spread.source, *deviation, *share, verdict, number.p
