"""Fills the gallery page from the files in `examples`: every file there appears on the page.

An example opens with a docstring: its title, a line per command, and a sentence about the picture. Run as a program,
this module executes the commands of every example (or of those named) and updates the pictures in `docs/images`:

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

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
MARK = "<!-- examples -->"
WIDTH, COLOURS = 1300, 64
"""Width in pixels and number of colours of a picture; both keep the page small."""


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


def draw(example: Example) -> None:
    """Executes an example's commands in an empty directory and stores its picture."""
    from PIL import Image

    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "examples").symlink_to(ROOT / "examples")
        for command in example.commands:
            subprocess.run(shlex.split(command), check=True, cwd=directory, env=environment)
        drawn = Image.open(Path(directory) / "runs" / "figures" / f"{example.figure}.png").convert("RGB")
        small = drawn.resize((WIDTH, round(drawn.height * WIDTH / drawn.width)), Image.Resampling.LANCZOS)
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(example.picture, optimize=True)


def _insert(app, docname: str, source: list[str]) -> None:
    if docname == "gallery":
        source[0] = source[0].replace(MARK, "\n\n".join(map(markdown, examples())))


def setup(app) -> dict[str, bool]:
    """Inserts the examples whenever the page is read, and rereads it at every build, since there may be new files."""
    app.connect("source-read", _insert)
    app.connect("env-get-outdated", lambda app, env, added, changed, removed: ["gallery"])
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for example in examples():
        if not sys.argv[1:] or example.path.stem in sys.argv[1:]:
            draw(example)
