"""Mathematics in labels: ``‖h_L‖`` is typeset with subscripts in figures and on pages."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_NORM = re.compile(r"(‖[^‖]*‖²?)")
_SUBSCRIPT = re.compile(r"(?<![A-Za-z0-9_])(∂?[A-Za-z])_([A-Za-zℓ]|[0-9]+)(?![A-Za-z0-9_])")
_LONGEST = 1000  # characters: longer formulas take seconds to set
_COMMANDS = {"‖": r"\|", "∂": r"\partial ", "Δ": r"\Delta ", "ℓ": r"\ell ", "²": "^2"}


def mathtext(label: str) -> str:
    r"""Returns a label for matplotlib, with norms and subscripts as formulas, unless it has formulas of its own.

    >>> print(mathtext("norm ‖h_L‖ of h_2"))
    norm $\|h_{L}\|$ of $h_{2}$
    """
    if "$" in label:
        return literal(label)
    parts = _NORM.split(label)  # alternately text and norms
    return "".join(
        f"${_formula(part)}$" if index % 2 else _SUBSCRIPT.sub(lambda found: f"${_formula(found[0])}$", part)
        for index, part in enumerate(parts)
    )


def literal(name: str) -> str:
    r"""Returns a name for matplotlib as it is: dollar signs stay unless they enclose formulas that can be typeset.

    >>> print(literal("cost in $"), literal(r"$\frac{$"), literal(r"$\alpha$ = 1"))
    cost in \$ \$\frac{\$ $\alpha$ = 1
    """
    if "$" not in name:
        return name
    return "\n".join(line if _can_be_set(line) else line.replace("$", r"\$") for line in name.split("\n"))


def _can_be_set(line: str) -> bool:
    from matplotlib.cbook import is_math_text  # pages have mathematics too, and do not need matplotlib
    from matplotlib.mathtext import MathTextParser

    if len(line) > _LONGEST or not is_math_text(line):
        return False
    try:
        MathTextParser("path").parse(line)
    except (ValueError, RecursionError):
        return False
    return True


def _formula(text: str) -> str:
    braced = _SUBSCRIPT.sub(r"\1_{\2}", text)
    return "".join(_COMMANDS.get(letter, letter) for letter in braced)


def html_mathematics(label: str) -> Markup:
    """Returns a label with HTML subscripts; everything else is escaped.

    >>> html_mathematics("‖h_L‖ < 1")
    Markup('‖<i>h</i><sub>L</sub>‖ &lt; 1')
    """
    return Markup(_SUBSCRIPT.sub(r"<i>\1</i><sub>\2</sub>", str(escape(label))))


def svg_mathematics(label: str) -> Markup:
    """Returns a label with SVG subscripts; everything else is escaped."""
    lowered = r'\1<tspan class="sub" dy="3">\2</tspan><tspan dy="-3">&#8203;</tspan>'
    return Markup(_SUBSCRIPT.sub(lowered, str(escape(label))))
