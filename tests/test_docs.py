"""What the README and the pages tell people to do, done: every command, every Python block, every part they add."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymograph
from kymograph import _registry as registry
from kymograph._cli.main import main
from kymograph._pictures.report_page.sections import PANELS
from kymograph._studies.loading import built_in_studies
from tests.science.data import archive
from tests.test_public_face import EXTENSIONS, public_names

ROOT = Path(__file__).parent.parent
HOWTO = ROOT / "docs" / "howto"
SOURCES = ROOT / "src" / "kymograph", ROOT / "src" / "kymograph_studies"
PARTS = sorted(path.name for path in HOWTO.glob("add-a*.md"))
FRAMEWORKS_PAGE, FRAMEWORKS = "docs/howto/frameworks.md", ("lightning", "torchmetrics", "transformers", "accelerate")
GUIDES = sorted(f"docs/howto/{path.name}" for path in HOWTO.glob("*.md") if path.name not in PARTS)
GUIDES.remove(FRAMEWORKS_PAGE)
STUDY_PAGES = sorted(f"docs/studies/{path.name}" for path in (ROOT / "docs" / "studies").glob("*.md"))
STUDY_PAGE = "add-a-study.md"
SETTINGS: dict[str, dict[str, Any]] = {  # in which a study shows everything and takes no time
    "clipping": {"n_samples": 60, "epochs": 1, "n_rare": 3},
    "depth": {"layers": 3, "width": 8, "steps": 6},
    "snapshot": {"epochs": 1, "width": 16},
    "calibration": {"epochs": 1, "width": 16, "draws": 19},
    "top_block_study.py": {"epochs": 1, "width": 16},
    "audit": {"epochs": 1, "width": 16},
    "rule-family": {
        "epochs": 1, "training_samples": 64, "validation_samples": 32, "measurements": 3, "draws": 3, "width": 8,
    },
}  # fmt: skip
OPTIONS = {"audit": ["--images", "64", "--quiet"], "calibrate": ["--images", "64", "--draws", "19"]}

Block = tuple[str, str]  # language and content


def blocks(path: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in order; a block without a language holds commands."""
    found = re.findall(r"^```(\S*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    return [(language, content) for language, content in found if not language.startswith("{")]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to work in, with what only a reader has; nothing that is imported or registered here stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])  # as a program finds what lies beside it
    known = set(sys.modules)
    whole = functools.partial(quickly, kymograph.run)
    monkeypatch.setattr("kymograph._experiments.running.run", whole)
    drawn_not_written = lambda figure, directory, name, **_: []  # noqa: E731
    monkeypatch.setattr("kymograph._pictures.saving.save_figure", drawn_not_written)
    monkeypatch.setattr("kymograph._pictures.live.web.serve", lambda directory, port: 0)
    monkeypatch.setattr("kymograph_studies.data.cifar10_files.fetch", lambda directory: archive.make(Path(directory)))
    registry._in_packages.cache_clear()
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    registry._in_packages.cache_clear()


def quickly(run: Any, study: str, *arguments: Any, **options: Any) -> Any:
    """Runs a study with settings that take no time, where the page names none."""
    return run(study, *arguments, **{**SETTINGS.get(study, {}), "quiet": True, **options})


def follow(found: list[Block], workspace: Path) -> None:
    """Does what the blocks of a page say, from top to bottom."""
    for language, content in found:
        if language == "python" and (name := file_name(content)):
            (workspace / name).write_text(content)
        elif language == "python" and "import duckdb" in content and importlib.util.find_spec("duckdb") is None:
            continue  # it is in the extra `test`
        elif language == "python":
            space: dict[str, Any] = {}
            exec(compile(content, "page", "exec"), space)
            for name, test in [*space.items()]:
                if name.startswith("test_"):
                    test(*[workspace / f"{name}-runs"] * len(inspect.signature(test).parameters))
        elif language == "":
            for line in content.splitlines():
                if line.startswith("kymograph "):
                    do(line, workspace)
                elif line.startswith("torchrun "):
                    launcher = [sys.executable, "-m", "torch.distributed.run", *shlex.split(line)[1:]]
                    subprocess.run(launcher, check=True, cwd=workspace, timeout=120)


def file_name(content: str) -> str | None:
    """Returns the file that a block is, by the comment in its first line."""
    found = re.match(r"# (\S+\.(?:py|toml))\n", content)
    return found[1] if found else None


def do(command: str, workspace: Path) -> None:
    """Runs one command, with settings that take no time."""
    words = shlex.split(command)[1:]
    if words[0] == "run":
        options = {f"--{name.replace('_', '-')}": str(value) for name, value in SETTINGS.get(words[1], {}).items()}
        options |= {"--engine": "serial"}
        for option, value in options.items():
            if option not in words:
                words += [option, value]
            elif option in ("--epochs", "--draws"):
                words[words.index(option) + 1] = value
        words.append("--quiet")
    words += OPTIONS.get(words[0], []) if "--draws" not in words else []
    words = [resolved(word, workspace) for word in words]
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 0, command


def resolved(word: str, workspace: Path) -> str:
    """Returns the path that a placeholder such as ``runs/depth/plain-s42-ID`` stands for."""
    return str(next(workspace.glob(f"{word.removesuffix('ID')}*"))) if word.endswith("-ID") else word


def stored_depth(workspace: Path) -> None:
    """Makes the runs that most pages start from."""
    kymograph.run(
        "depth", seeds=[42, 123], arms=["plain", "residual"], out=workspace / "runs", quiet=True, **SETTINGS["depth"]
    )


def script_logs(workspace: Path) -> None:
    """Writes logs as the snapshot scripts do."""
    keys = {
        "resmlp": ("hidden_norms", "bp_grad_norms_per_sample_med"),
        "vit": ("hidden_norms_cls", "bp_grad_per_sample_l2_med"),
    }
    for name in ("snapshot_evolution_v2", "snapshot_no_outln_v1", "snapshot_vit_v1"):
        norms, gradients = keys["vit" if "vit" in name else "resmlp"]
        entries = [{norms: [1.0, 2.0, 3.0 + n], gradients: [1.0, 1.0, 1.0 + n], "epoch": n} for n in range(3)]
        (workspace / "results" / name).mkdir(parents=True)
        content = json.dumps({"config": {"seed": 42}, "bp_log": entries, "dfa_log": entries})
        (workspace / "results" / name / "s42.json").write_text(content)


def csv_results(workspace: Path) -> None:
    """Writes one series of two arms as CSV files."""
    for shift, arm in enumerate(("ours", "theirs")):
        rows = "\n".join(f"{seed},{step},{shift + 0.1 * seed}" for seed in range(8) for step in range(2))
        (workspace / "results" / arm).mkdir(parents=True, exist_ok=True)
        (workspace / "results" / arm / "loss.csv").write_text(f"seed,step,value\n{rows}\n")


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        *(
            pytest.param(page, marks=pytest.mark.slow)
            for page in ("docs/tutorial.md", "docs/clusters.md", *GUIDES, "docs/gallery.md", *STUDY_PAGES)
        ),
        pytest.param(
            FRAMEWORKS_PAGE,
            marks=[
                pytest.mark.frameworks,
                *(pytest.mark.filterwarnings(f"ignore::Warning:{package}.*") for package in FRAMEWORKS),
            ],
        ),
    ],
)
def test_what_a_page_says_works(name: str, workspace: Path) -> None:
    for package in FRAMEWORKS if name == FRAMEWORKS_PAGE else ():
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'kymograph[lightning,hf]'")
    page = ROOT / name
    found = blocks(page)
    if name.startswith("docs/howto/"):
        stored_depth(workspace)
        script_logs(workspace)
        csv_results(workspace)
    if name == "docs/gallery.md":  # what `make demo` makes
        quickly(kymograph.run, "snapshot", seeds=[42, 123], out=workspace / "runs" / "reproduce")
    for language, content in found:
        if language == "toml":
            (workspace / (file_name(content) or "my_claims.toml")).write_text(content)
    follow(found, workspace)


@pytest.mark.slow
def test_the_tutorial_ends_with_the_verdicts_that_it_shows(workspace: Path) -> None:
    page = ROOT / "docs" / "tutorial.md"
    follow(blocks(page)[:2], workspace)
    shown = re.findall(r"^    (SUPPORTED|REFUTED) +(.+)\n +×([\d.]+) ", page.read_text(), re.MULTILINE)
    verdicts = kymograph.judge(workspace / "runs")
    assert [(str(one.outcome), one.claim.name) for one in verdicts] == [(outcome, name) for outcome, name, _ in shown]
    assert {outcome for outcome, _, _ in shown} == {"SUPPORTED", "REFUTED"}
    for one, (_, _, effect) in zip(verdicts, shown, strict=True):
        assert one.effect == pytest.approx(float(effect), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_a_page_adds_its_part(name: str, workspace: Path) -> None:
    found = blocks(HOWTO / name)
    (table,) = [tomllib.loads(content) for language, content in found if language == "toml"]
    ((group, entries),) = table["project"]["entry-points"].items()
    part, module = next(iter(entries.items()))
    place = re.search(r"In this tree[^`]*`(src/[\w/.]+)`", (HOWTO / name).read_text())
    assert place is not None and (ROOT / place[1]).exists(), "where the part goes in the tree"

    mine = [content for language, content in found if language == "python" and content.startswith("# my_lab/")]
    rest = [(language, content) for language, content in found if content not in mine]
    study = next(content for _, content in blocks(HOWTO / STUDY_PAGE) if file_name(content) == "momentum.py")
    if name == STUDY_PAGE:  # the study is run from its file first
        follow(rest, workspace)
        (workspace / "installable.py").write_text(study + "".join(mine))
        assert kymograph.load_study("installable.py").name == part, "STUDY is no second study of the file"
        install(workspace, group, entries, {module: study + "".join(mine)})
        assert kymograph.load_study(part).question == registry.Registry(group, "").part(part).about
    else:
        (workspace / "momentum.py").write_text(study)
        stored_depth(workspace)
        install(workspace, group, entries, {(file_name(own) or "")[:-3].replace("/", "."): own for own in mine})
        assert all(registry.Registry(group, "").part(name).about for name in entries), "a part says what it is"
        follow(rest, workspace)
    assert any("\ndef test_" in content for _, content in rest), "the page shows a test"


def install(workspace: Path, group: str, entries: dict[str, str], sources: dict[str, str]) -> None:
    """Installs the package ``my_lab``, as pip does, with its modules and their entry points."""
    site = workspace / "site-packages"
    assert set(entries.values()) == set(sources), "every module that the page shows has an entry point"
    for module, source in sources.items():
        path = site / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    information = site / "my_lab-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 1\n")
    points = "".join(f"{part} = {module}\n" for part, module in entries.items())
    (information / "entry_points.txt").write_text(f"[{group}]\n{points}")
    sys.path.insert(0, str(site))
    registry._in_packages.cache_clear()


def test_every_page_is_listed() -> None:
    listed = (HOWTO / "index.md").read_text()
    for path in HOWTO.glob("*.md"):
        assert path.name == "index.md" or f"\n{path.stem}\n" in listed, path.name


def test_every_study_has_a_page_with_its_question_and_its_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    pages = pytest.importorskip("sphinx") and importlib.import_module("study_pages")
    table = (ROOT / "docs" / "verdicts.md").read_text()
    assert pages.verdict_rows("depth", "") == []
    for study in built_in_studies():
        page = (ROOT / "docs" / "studies" / f"{study.name}.md").read_text()
        assert f"**{study.question}**" in page and f"\n{study.name}\n" in (ROOT / "docs/studies/index.md").read_text()
        there = [path for name in pages.verdict_pages(study.name) if (path := ROOT / "docs" / name).exists()]
        rows = [row for path in there for row in pages.verdict_rows(study.name, path.read_text())]
        assert bool(rows) == bool(study.claims()) and all(len(row) == len(pages.COLUMNS) for row in rows)
        numbers = "".join(pages.number_table(study.name, path.read_text()) for path in there)
        assert ("95 % intervals" in numbers) == bool(study.tuning())
        assert "default" not in pages.arm_table(study.name) and "| `" in pages.arm_table(study.name)
    assert pages.verdict_rows("depth", table)[0][0] == "gradients of the plain stack vanish with depth"


def test_every_kind_of_part_has_a_page() -> None:
    found = set()
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        found |= set(re.findall(r'Registry\(\s*"(kymograph[\w.]+)", ', path.read_text()))
    explained = "".join((HOWTO / name).read_text() for name in PARTS)
    for group in found - {"kymograph.accelerators", "kymograph.hints"}:  # part of a rule; of a package with other flags
        assert f'entry-points."{group}"' in explained, group


def test_the_readme_is_short_and_its_speeds_are_those_that_the_bench_printed() -> None:
    """It used to have 2,160 words and a table of 33 rows."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 100
    speeds = re.findall(r"[\d.]+(?=x)", readme.split("## Speed")[1].split("\n## ")[0])
    table = (ROOT / "docs" / "bench.md").read_text()
    assert len(speeds) >= 5 and all(f"{speed}x (" in table for speed in speeds)


def test_links_lead_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert target.startswith("http") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_modules_and_files_that_the_pages_name_exist() -> None:
    """A page that names a module or a file of the tree that was moved is out of date."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text()
        for name in re.findall(r"`(src/kymograph[\w/.]+)`", text):
            assert (ROOT / name).exists(), f"{path.name}: {name}"
        for name in re.findall(r"`(\w+/\w+\.py)`", text):
            assert any((home / name).exists() for home in (ROOT, *SOURCES)), f"{path.name}: {name}"
        for name in re.findall(r"from (kymograph(?:_studies)?(?:\.\w+)+) import", text):
            home = ROOT / "src" / name.replace(".", "/")
            assert home.is_dir() or home.with_suffix(".py").exists(), f"{path.name}: {name}"


def test_the_map_shows_every_room() -> None:
    places = [path for source in SOURCES for path in source.iterdir()]
    rooms = {path.stem for path in places if path.suffix == ".py" or (path / "__init__.py").exists()}
    shown = (ROOT / "docs" / "architecture.md").read_text().split("## Rooms")[1].split("## ")[0]
    assert rooms - {"__init__", "__main__"} <= set(re.findall(r"`(\w+)`", shown))


def test_the_classes_that_the_glossary_names_exist() -> None:
    source = "".join(path.read_text() for source in SOURCES for path in source.rglob("*.py"))
    classes = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    named = set(re.findall(r"`([A-Z][a-z]\w+)(?:\.\w+)?`", (ROOT / "docs" / "glossary.md").read_text()))
    assert len(named) > 25 and named <= classes, named - classes


def test_the_findings_of_the_readme_are_among_the_verdicts_that_reproduce_wrote() -> None:
    """Claim, verdict and effect of every sentence stand so in a page of verdicts, and CIFAR-10 comes first."""
    shown = (ROOT / "README.md").read_text().split("<!-- findings -->\n")[1].split("<!-- /findings -->")[0]
    sentences = [" ".join(item.split()) for item in shown.removeprefix("- ").split("\n- ")]
    found = []
    for sentence in sentences:
        match = re.match(r'"([^"]+)" is ', sentence)
        assert match, sentence
        verdicts = re.findall(r"\*\*([A-Z]+)\*\*( on CIFAR-10)?: ([^ ]+ \[[^]]+\])", sentence)
        assert len(verdicts) == sentence.count("**") / 2
        found += [(match[1], *verdict) for verdict in verdicts]
    pages = {page: _findings(ROOT / "docs" / page) for page in ("verdicts-cifar10.md", "verdicts.md")}
    for claim, verdict, on_cifar10, effect in found:
        assert (claim, verdict, effect) in pages["verdicts-cifar10.md" if on_cifar10 else "verdicts.md"]
    assert len(sentences) == 5 and [bool(on_cifar10) for _, _, on_cifar10, _ in found[:2]] == [True, True]


def test_the_page_about_cifar10_quotes_the_verdicts_that_reproduce_wrote() -> None:
    text = (ROOT / "docs" / "cifar10.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:2] == "| "][1:]
    assert len(rows) == 4
    for column, page in enumerate(("verdicts-cifar10.md", "verdicts.md"), start=1):
        found = {(claim, verdict): effect for claim, verdict, effect in _findings(ROOT / "docs" / page, repaired=True)}
        for row in rows:
            verdict, _, effect = re.split("([:,] )", row[column] + ", ")[:3]
            assert (row[0], verdict) in found
            assert verdict == "INVALID" or found[row[0], verdict].startswith(effect)
    for effect in ("×2,580", "×125,000", "×16.9"):
        assert effect in text and f"| {effect} [" in (ROOT / "docs" / "verdicts-cifar10.md").read_text()


def _findings(page: Path, repaired: bool = False) -> set[tuple[str, str, str]]:
    """Returns claim, verdict and effect of the rows of a page, by default without those about repaired set-ups."""
    table = page.read_text().replace("\\|", "")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:2] == "| "]
    return {(row[0], row[3], row[4]) for row in rows if len(row) > 4 and (repaired or "repaired" not in row[1])}


def test_the_page_of_the_api_has_every_public_name_and_the_path_of_a_new_user_first() -> None:
    """It used to have neither `study` nor `record`, nor what their functions are given."""
    page = (ROOT / "docs" / "api.md").read_text()
    entries = re.findall(r"^\.\. auto(?:function|class):: kymograph\.(?:[\w.]+\.)?(\w+)$", page, re.MULTILINE)
    for name in kymograph.__all__:
        value = getattr(kymograph, name)
        kind = "class" if inspect.isclass(value) else "function"
        assert f"\n.. auto{kind}:: kymograph.{name}\n" in page or (name == "rules" and "`kymograph.rules`" in page), (
            name
        )
    for module in EXTENSIONS:
        assert f"\n.. automodule:: kymograph.{module}\n" in page, module
        for name, value in public_names(importlib.import_module(f"kymograph.{module}")).items():
            listed = re.search(rf"^\.\. auto\w+:: kymograph\.{module}\.{name}$", page, re.MULTILINE)
            assert listed or not (inspect.isclass(value) or inspect.isfunction(value)), f"{module}.{name}"
    assert entries[:3] == ["study", "record", "ActiveRun"] and "compare" in entries
    fields = dataclasses.fields(kymograph.SeriesDisplay)
    described = inspect.getdoc(kymograph.SeriesDisplay) or ""
    assert all(f"\n    {field.name}: " in described for field in fields)


def test_the_forms_of_a_series_that_are_described_are_those_that_there_are() -> None:
    """The tool's where series are declared, those of its studies on the page about panels."""
    parts = {name: part for name, part in PANELS.parts().items() if part.properties.get("scope") != "study"}
    forms = {name for name, part in parts.items() if part.module.startswith("kymograph.")}
    described = (kymograph.SeriesDisplay.__doc__ or "").split("forms: ")[1].split("options: ")[0]
    assert forms and forms <= set(re.findall(r"``(\w+)``", described)), forms
    assert set(parts) <= set(re.findall(r"`(\w+)`", (HOWTO / "add-a-report-panel.md").read_text()))


@pytest.mark.slow
def test_the_documented_question_to_duckdb_is_answered_with_the_stored_numbers(
    workspace: Path, capfd: pytest.CaptureFixture
) -> None:
    pytest.importorskip("duckdb")
    stored_depth(workspace)
    do("kymograph export runs --to parquet -o runs.parquet", workspace)
    (block,) = [text for language, text in blocks(HOWTO / "report-and-export.md") if "import duckdb" in text]
    space: dict[str, Any] = {}
    exec(block.replace(".show()", ".fetchall()").replace("duckdb.sql(f", "answer = duckdb.sql(f"), space)
    loss = kymograph.Store.open("runs").series("loss")
    expected = {arm: loss.sel(arm=arm).values[:, -1].mean() for arm in loss.labels["arm"]}
    assert {arm: mean for arm, _, mean in space["answer"]} == pytest.approx(expected)
    assert [runs for _, runs, _ in space["answer"]] == [2, 2]
