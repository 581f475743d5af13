"""Fills the gallery page from the files in `examples` and from the studies of `networks`: all appear on the page.

An example opens with a docstring: its title, a line per command, and a sentence about the picture. Run as a program,
this module executes the commands of every example, records the runs of every network (or of those named), and updates
the pictures in `docs/images`:

    python docs/_extensions/gallery.py [NAME ...]
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from networks import STUDIES, record

import kymograph as ky
from kymograph.figures import save_figure

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
MARK = "<!-- examples -->"
NETWORKS_MARK = "<!-- networks -->"
WIDTH, COLOURS = 1300, 64
"""Width in pixels and number of colours of a picture; both keep the page small."""
NETWORK_WIDTH, NETWORK_COLOURS = 800, 128
"""The same of a network's picture, which is higher than wide."""


@dataclass(frozen=True)
class Example:
    """One file of `examples`, with the contents of its docstring."""

    path: Path
    title: str
    commands: tuple[str, ...]
    caption: str

    @property
    def figure(self) -> str:
        """The name of the figure that its commands draw."""
        return next(shlex.split(line)[2] for line in self.commands if line.startswith("kymograph figure "))

    @property
    def picture(self) -> Path:
        """The path of the picture."""
        return DOCS / "images" / f"{self.figure}.png"

    @property
    def source(self) -> str:
        """The code, without the docstring."""
        text = self.path.read_text()
        return text[text.index('"""', 3) + 3 :].strip()


def read_example(path: Path) -> Example:
    """Parses the docstring of an example file."""
    title, _, rest = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    commands = tuple(line for line in lines if line.startswith(("kymograph ", "python ")))
    return Example(path, title, commands, " ".join(line for line in lines if line not in commands))


def examples() -> list[Example]:
    """Returns all examples, sorted by file name."""
    return [read_example(path) for path in sorted((ROOT / "examples").glob("*.py"))]


def markdown(example: Example) -> str:
    """Returns an example's section of the page in Markdown: title, commands, picture and code."""
    parts = [f"### {example.title.partition('?')[0]}?" if "?" in example.title else f"### {example.title}"]
    rest = example.title.partition("?")[2].strip()
    parts.append(" ".join(text for text in (rest, example.caption) if text))
    parts.append("```\n" + "\n".join(example.commands) + "\n```")
    if example.picture.exists():
        parts.append(f"![{example.caption}](images/{example.picture.name})")
    code = f"```python\n{example.source}\n```"
    parts.append(f"<details><summary><code>examples/{example.path.name}</code></summary>\n\n{code}\n\n</details>")
    return "\n\n".join(parts)


def network_figure(name: str) -> str:
    """Returns the name of the figure that the gallery shows of a study of `networks`."""
    return f"{name}-{STUDIES[name].figure}"


def network_picture(name: str) -> Path:
    """Returns the path of the picture of a study of `networks`."""
    return DOCS / "images" / f"network-{name}.png"


def network_markdown(name: str) -> str:
    """Returns the section of a study of `networks`: its question, what is seen, the command and the picture."""
    study, picture = STUDIES[name], network_picture(name)
    parts = [f"### {study.question}", study.caption, f"```\nkymograph figure {network_figure(name)}\n```"]
    return "\n\n".join([*parts, f"![{study.question}](images/{picture.name})"])


def draw(example: Example) -> None:
    """Executes an example's commands in an empty directory and stores its picture."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "examples").symlink_to(ROOT / "examples")
        for command in example.commands:
            subprocess.run(shlex.split(command), check=True, cwd=directory, env=environment)
        drawn = Path(directory) / "runs" / "figures" / f"{example.figure}.png"
        _store_small(drawn, example.picture, WIDTH, COLOURS)


def draw_network(name: str) -> None:
    """Records the runs of a study of `networks` in a temporary directory and stores its picture."""
    with tempfile.TemporaryDirectory() as directory:
        record(name, directory)
        figure = ky.figure(network_figure(name), ky.Store.open(directory))
        (drawn, *_) = save_figure(figure, Path(directory), name, ["png"])
        _store_small(drawn, network_picture(name), NETWORK_WIDTH, NETWORK_COLOURS)


def _store_small(drawn: Path, picture: Path, width: int, colours: int) -> None:
    """Writes a drawn figure with a given width in pixels and number of colours."""
    from PIL import Image

    full = Image.open(drawn).convert("RGB")
    width = min(width, full.width)
    small = full.resize((width, round(full.height * width / full.width)), Image.Resampling.LANCZOS)
    # Without k-means the rare colours, which are the ends of a colour scale, are lost.
    small.quantize(colours, kmeans=4, dither=Image.Dither.NONE).save(picture, optimize=True)


def _insert(app, docname: str, source: list[str]) -> None:
    if docname == "gallery":
        source[0] = source[0].replace(MARK, "\n\n".join(map(markdown, examples())))
        source[0] = source[0].replace(NETWORKS_MARK, "\n\n".join(map(network_markdown, STUDIES)))


def setup(app) -> dict[str, bool]:
    """Inserts the examples whenever the page is read, and rereads it at every build, since there may be new files."""
    app.connect("source-read", _insert)
    app.connect("env-get-outdated", lambda app, env, added, changed, removed: ["gallery"])
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for example in examples():
        if not sys.argv[1:] or example.path.stem in sys.argv[1:]:
            draw(example)
    torch.set_num_threads(1)
    for name in STUDIES:
        if not sys.argv[1:] or name in sys.argv[1:]:
            draw_network(name)
