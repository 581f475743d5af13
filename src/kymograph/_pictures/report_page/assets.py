"""Assets of pages: style sheets with the arms' colours, scripts, templates, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from kymograph._pictures.styles import COLOURS, DASHES

SCRIPTS = ("number.js", "page.js", "claims.js", "charts.js", "files.js")
# Runs before the page is drawn, so that the theme does not flash; elements that need scripts show only if they run.
EARLY = (
    'document.documentElement.classList.add("js");'
    'try{var t=localStorage.getItem("kymograph-theme");if(t)document.documentElement.dataset.theme=t}catch(e){}'
)


def template(name: str) -> str:
    """Returns the text of one of the page's files."""
    return (resources.files("kymograph._pictures.report_page") / "templates" / name).read_text(encoding="utf-8")


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
