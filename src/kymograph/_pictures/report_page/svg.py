"""Small pieces of SVG as escaped markup: elements, scales with ticks, and the frame around a panel.

No charting library is used, because the same picture must work without JavaScript, follow the page's light or dark
theme, and print. The page's script only adds interaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from kymograph._pictures.styles import svg_mathematics
from kymograph._rounding import number_text


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Returns one element with escaped text and attributes; ``class_`` becomes ``class``, and ``_`` in a name ``-``."""
    pairs = [
        f'{key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    inside = "".join(str(escape(child)) for child in children)
    return Markup(f"<{' '.join([name, *pairs])}>{inside}</{name}>")


def _attribute(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def number(value: float | None, digits: int = 4) -> str:
    """Returns a number as formatted on the page (`kymograph._rounding`)."""
    return number_text(value, digits, typeset=True)


@dataclass(frozen=True)
class Scale:
    """A map from values to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: np.ndarray | float) -> np.ndarray:
        """Returns pixels; NaN where a value cannot be shown (missing, or not positive on a log scale)."""
        values = np.asarray(value, dtype=np.float64)
        low, high = self.low, self.high
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values, low, high = np.log(np.where(values > 0, values, np.nan)), math.log(low), math.log(high)
        return self.start + (values - low) / (high - low) * (self.end - self.start)

    def at(self, value: float) -> float:
        """Returns the pixel of one value."""
        return float(self(value))

    def ticks(self, count: int = 5) -> list[float]:
        """Returns about ``count`` round values within the scale."""
        return log_ticks(self.low, self.high, count) if self.log else linear_ticks(self.low, self.high, count)


def scale_over(values: Iterable[float] | np.ndarray, start: float, end: float, log: bool, pad: float = 0.04) -> Scale:
    """Returns a scale that covers all finite ``values`` (only positive ones if ``log``) with a little room."""
    array = np.asarray(list(values) if not isinstance(values, np.ndarray) else values, dtype=np.float64).ravel()
    array = array[np.isfinite(array) & ((array > 0) | (not log))]
    array = np.clip(array, 1e-250, 1e250) if log else np.clip(array, -1e250, 1e250)  # room for the pad
    low, high = (float(array.min()), float(array.max())) if len(array) else (0.1, 1.0)
    if log:
        if high < low * 1.0001:  # a single value gets a scale around it
            low, high = low / 1.05, high * 1.05
        room = pad * (math.log(high) - math.log(low))
        return Scale(low * math.exp(-room), high * math.exp(room), start, end, True)
    if high - low <= max(1e-9 * max(abs(low), abs(high)), 1e-290):
        around = max(0.05 * abs(high), 1e-280) if abs(high) > 1e-290 else 0.05
        low, high = low - around, high + around
    return Scale(low - pad * (high - low), high + pad * (high - low), start, end)


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """Returns about ``count`` ticks at multiples of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{multiple * step:.12g}") for multiple in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Returns powers of ten, every second or third if there are many, with 2 and 5 in between if there are few."""
    bottom, top = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = list(range(bottom, top + 1))
    if len(powers) >= 3:
        stride = -(-len(powers) // count)
        return [10.0**power for power in powers if power % stride == 0]
    fine = [factor * 10.0**power for power in range(bottom - 1, top + 1) for factor in (1, 2, 5)]
    fine = [value for value in fine if low <= value <= high]
    return fine if len(fine) >= 2 else linear_ticks(low, high, count)


def labels(ticks: Sequence[float]) -> list[str]:
    """Returns the ticks as text, with enough digits to tell them apart."""
    for digits in range(4, 12):
        texts = [number(tick, digits) for tick in ticks]
        if len(set(texts)) == len(texts):
            break
    return texts


def shortened(name: str, most: int) -> str:
    """Returns the end of a name with more than ``most`` characters, where names of layers differ: whole parts, if any.

    >>> shortened("model.layers.0.mlp", 10), shortened("model.embed_tokens", 16), shortened("embed_tokens", 8)
    ('…0.mlp', '…embed_tokens', '…_tokens')
    """
    if len(name) <= most:
        return name
    end = name[len(name) - most + 1 :]
    dot = end.find(".")
    return "…" + (end[dot + 1 :] if 0 <= dot < len(end) - 1 else end)


def line(x: np.ndarray, y: np.ndarray) -> str:
    """Returns the path through the points, broken where one is missing."""
    finite = np.isfinite(x) & np.isfinite(y)
    return "".join(_segment_path(x[part], y[part], "M") for part in _segments(finite))


def band(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    """Returns the closed path between two curves, one piece per segment without gaps."""
    finite = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    return "".join(
        _segment_path(x[part], high[part], "M") + _segment_path(x[part][::-1], low[part][::-1], "L") + "Z"
        for part in _segments(finite)
    )


def _segments(finite: np.ndarray) -> list[slice]:
    """Returns the segments of consecutive True entries."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], finite, [False]]).astype(int)))
    return [slice(first, last) for first, last in edges.reshape(-1, 2).tolist()]


def _segment_path(x: np.ndarray, y: np.ndarray, pen: str) -> str:
    """Returns the path through points without gaps, to a tenth of a pixel, in relative coordinates to save space."""
    points = np.rint(10 * np.stack([x, y], axis=1)).astype(int)  # rounded before differencing: errors do not add up
    (a, b), *steps = np.concatenate([points[:1], np.diff(points, axis=0)]).tolist()
    rest = "".join(f"{'' if dx < 0 else ' '}{_tenths(dx)}{'' if dy < 0 else ' '}{_tenths(dy)}" for dx, dy in steps)
    return f"{pen}{_tenths(a)} {_tenths(b)}" + (f"l{rest.strip()}" if steps else "")


def _tenths(value: int) -> str:
    """Returns a tenth of a whole number in its shortest notation."""
    whole, part = divmod(abs(value), 10)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole or ''}.{part}" if part else f"{sign}{whole}"


@dataclass(frozen=True)
class Frame:
    """A panel's size and margins, in pixels; small enough to be read on a phone without scaling down."""

    width: int = 460
    height: int = 250
    left: int = 58
    right: int = 12
    top: int = 26
    bottom: int = 40

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The plotting area: left, top, width, height."""
        return self.left, self.top, self.width - self.left - self.right, self.height - self.top - self.bottom


def axes(frame: Frame, x: Scale, y: Scale, x_label: str, y_label: str, names: Sequence[str] | None = None) -> Markup:
    """Returns grid, ticks and labels of a panel; ``names`` label the x axis at 0, 1, 2 ... instead of numbers."""
    left, top, width, height = frame.box
    bottom = top + height
    parts: list[object] = []
    ticks = y.ticks()
    for value, text in zip(ticks, labels(ticks), strict=True):
        at = y.at(value)
        parts.append(element("line", class_="grid", x1=left, x2=left + width, y1=at, y2=at))
        parts.append(element("text", text, x=left - 6, y=at + 4, text_anchor="end"))
    stride = -(-len(names) // 6) if names else 1
    most = int(width / max(1, len(names or ()) // stride) / 7)  # letters of a name next to its neighbours
    whole = [tick for tick in x.ticks() if tick == int(tick)]  # nothing is measured within an epoch
    ticks = [float(index) for index in range(0, len(names), stride)] if names else whole or x.ticks()
    texts = [shortened(names[int(tick)], most) for tick in ticks] if names else position_labels(ticks)
    for value, label in zip(ticks, texts, strict=True):
        parts.append(element("line", class_="grid", x1=x.at(value), x2=x.at(value), y1=top, y2=bottom))
        parts.append(element("text", svg_mathematics(label), x=x.at(value), y=bottom + 15, text_anchor="middle"))
    parts.append(element("line", class_="axis", x1=left, x2=left + width, y1=bottom, y2=bottom))
    parts.append(element("text", svg_mathematics(y_label), class_="label", x=2, y=12))
    parts.append(
        element(
            "text",
            svg_mathematics(x_label),
            class_="label",
            x=left + width / 2,
            y=frame.height - 4,
            text_anchor="middle",
        )
    )
    return element("g", *parts)


def position_labels(ticks: Sequence[float]) -> list[str]:
    """Returns ticks as text: whole numbers with thousands separators, others with enough digits to tell them apart.

    >>> position_labels([0.0, 5000.0]), position_labels([3_000_000_000.0, 3_000_000_500.0])
    (['0', '5,000'], ['3,000,000,000', '3,000,000,500'])
    """
    texts = [f"{int(tick):,}" if tick == int(tick) and abs(tick) < 1e7 else number(tick) for tick in ticks]
    if len({*texts}) == len(texts):
        return texts
    return [f"{int(tick):,}" if tick == int(tick) else f"{tick:.12g}" for tick in ticks]


def picture(frame: Frame, label: str, *children: object) -> Markup:
    """Returns the whole SVG, which scales with its column; ``label`` describes it to a screen reader."""
    return element("svg", *children, viewBox=f"0 0 {frame.width} {frame.height}", role="img", aria_label=label)
