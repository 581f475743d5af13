"""The public face: every name works, is typed, is documented, and has an example that runs."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import math
import re
import shutil
import subprocess
import sys
import types
import typing
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kymograph
import kymograph_studies

ROOT = Path(__file__).parents[1]
PACKAGE, SCIENCE = (Path(package.__file__).parent for package in (kymograph, kymograph_studies))
EXTENSIONS = ("engines", "figures", "formats", "panels", "parts", "quantities", "studies", "verbs")
"""The modules that authors of parts import from, named after the kinds of parts."""
FRAMEWORKS = {
    "lightning": ("lightning", "pytorch_lightning", "torchmetrics"),
    "hf": ("transformers", "accelerate"),
}
"""The modules with a callback for a framework, and the packages of that framework."""
SLOW = {"audit"}
"""Names whose example trains a network."""
STUDY = '''
"""Does warm-up lower the final sharpness? Numbers as training might give them, made in no time."""

import kymograph as ky
import torch


@ky.study(
    question="Does warm-up lower the final sharpness?",
    arms={"constant": {}, "warmup": {"warmup_steps": 2}},
    claims=[ky.Claim.compare("sharpness", "warmup", "<", "constant", margin=1.1)],
)
def warmup_study(run: ky.ActiveRun, *, lr: float = 0.1, warmup_steps: int = 0, steps: int = 3):
    noise = 0.1 * torch.rand(4, generator=run.generator("noise", run.arm))
    size = 1.0 if warmup_steps else 2.0
    for step in run.steps(steps):
        run.log(loss=(size + noise[0]) / (step + 1), grad_norm={"layer 1": size + noise[1], "layer 2": size + noise[2]})
    return {"sharpness": size + noise[3]}
'''


def public_names(module: types.ModuleType) -> dict[str, Any]:
    """Returns what a module of public names offers."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def extension(name: str) -> types.ModuleType:
    return importlib.import_module(f"kymograph.{name}")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as examples find it: a study in `warmup.py`, and its runs in `runs`."""
    directory = tmp_path_factory.mktemp("examples")
    (directory / "warmup.py").write_text(STUDY)
    kymograph.run(str(directory / "warmup.py"), out=directory / "runs", quiet=True, engine="serial")
    return directory


@pytest.fixture
def beside(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory of an example: a copy of that one."""
    here = tmp_path / "here"
    shutil.copytree(stored, here)
    monkeypatch.chdir(here)
    yield here
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith(str(here)):
            del sys.modules[name]


def execute(docstring: str, name: str, names: Mapping[str, Any] | None = None) -> int:
    """Executes the example of a docstring, where a user has only these imports; returns how many lines it has."""
    import torch

    offered = {"ky": kymograph, "np": np, "torch": torch, "Path": Path, "inf": math.inf, "dataclasses": dataclasses}
    typed = {"dataclass": dataclasses.dataclass, "field": dataclasses.field, "Annotated": typing.Annotated}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(docstring, {**(names or {}), **offered, **typed}, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    failures: list[str] = []
    runner.run(test, out=failures.append)
    assert not runner.failures, "".join(failures)
    return runner.tries


def documented(name: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yields the docstrings of a public name, and of its public methods, with what holds each."""
    yield name, inspect.getdoc(value) or "", value
    if inspect.isclass(value):
        for key, member in vars(value).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not key.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{key}", inspect.getdoc(function) or "", function


NAMES = sorted(set(kymograph.__all__) - {"rules"})


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in NAMES])
def test_the_example_of_every_public_name_holds(name: str, beside: Path) -> None:
    value = getattr(kymograph, name)
    shown = inspect.getdoc(value) or ""
    assert ">>> " in shown, f"{name} has no example"
    assert "Args:" not in shown.split(">>> ")[0], f"the example of {name} comes after its arguments"
    for label, docstring, _ in documented(name, value):
        if ">>> " in docstring:
            assert execute(docstring, label), label


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_example_of_every_module_for_authors_holds_and_uses_all_its_names(name: str, beside: Path) -> None:
    module = extension(name)
    shown = module.__doc__ or ""
    assert execute(shown, name)
    for key, value in public_names(module).items():
        own = "" if isinstance(value, tuple | list | str) else inspect.getdoc(value) or ""
        assert re.search(rf"\b{key}\b", shown), f"the example of kymograph.{name} leaves out {key}"
        for label, docstring, holder in documented(key, value) if own else ():
            if ">>> " in docstring and (inspect.isclass(value) or inspect.isfunction(value)):
                assert execute(docstring, label, vars(inspect.getmodule(holder))), label


@pytest.mark.frameworks
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_example_of_every_module_for_a_framework_holds(name: str, beside: Path) -> None:
    for package in FRAMEWORKS[name]:
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'kymograph[{name}]'")
    with warnings.catch_warnings():
        for package in FRAMEWORKS[name]:
            warnings.filterwarnings("ignore", module=rf"{package}\b")
        assert execute(extension(name).__doc__ or "", name)


@pytest.mark.parametrize(("name", "package"), [("lightning", "lightning"), ("hf", "transformers")])
def test_without_a_framework_its_callback_says_what_to_install(name: str, package: str) -> None:
    code = f"""
import sys
for missing in ("lightning", "pytorch_lightning", "transformers"):
    sys.modules[missing] = None
import kymograph.{name} as module
assert "torch" not in sys.modules
try:
    module.KymographCallback
except module.__getattr__.__globals__["KymographError"] as error:
    print(error)
"""
    assert after(code) == (
        f"kymograph.{name}.KymographCallback needs the package {package}, which is not installed; install it with "
        f"`pip install {package}`"
    )


def test_the_example_at_the_top_holds(beside: Path) -> None:
    assert execute(kymograph.__doc__ or "", "kymograph")


PUBLIC = {f"{value.__module__}.{value.__qualname__}" for value in map(kymograph.__getattr__, NAMES)}
WITH_EXAMPLES = sorted(path for home in (PACKAGE, SCIENCE) for path in home.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(PACKAGE.parent).as_posix())
def test_the_examples_inside_hold(path: Path) -> None:
    """Those of modules, functions and classes that are not public, with the names of their own module."""
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    if not any(part.startswith("_") for part in module.split(".")) and PACKAGE in path.parents:
        return  # a public module, which has a test of its own
    # Read from the source: the shape checks wrap functions.
    for label, docstring in inner_docstrings(ast.parse(path.read_text()), module):
        if ">>> " in docstring and not any(label == name or label.startswith(f"{name}.") for name in PUBLIC):
            assert execute(docstring, label, vars(importlib.import_module(module)))


def inner_docstrings(tree: ast.Module | ast.ClassDef, label: str) -> Iterator[tuple[str, str]]:
    """Yields the docstrings of a module or class, and of the functions and classes in it, with their full names."""
    yield label, ast.get_docstring(tree) or ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from inner_docstrings(node, f"{label}.{node.name}")
        elif isinstance(node, ast.FunctionDef):
            yield f"{label}.{node.name}", ast.get_docstring(node) or ""


# Names


def test_the_public_names_are_these_and_no_others() -> None:
    assert kymograph.__all__ == [
        "ActiveRun", "Arm", "Check", "CheckResult", "Claim", "KymographError", "LabelledArray", "Measure", "Outcome",
        "Probe", "RecordedRun", "Registration", "RunResult", "RunSeries", "RunSpec", "SeriesDisplay", "Side", "Store",
        "StoredRun", "Study", "Tuned", "Verdict", "Verdicts", "Workplace",
        "audit", "difference_map", "export", "figure", "fixed_seeds", "generator", "judge", "list_studies",
        "load_study", "record", "register", "report", "rules", "run", "study", "verify",
    ]  # fmt: skip
    for name in kymograph.__all__:
        value = getattr(kymograph, name)
        assert value.__name__ in (name, f"kymograph_studies.{name}"), f"{name} is called {value.__name__} in its docs"
    with pytest.raises(AttributeError, match="no attribute 'recrod'"):
        _ = kymograph.recrod


def test_dir_shows_only_names_that_work() -> None:
    """It used to show `importlib`, `annotations` and `TYPE_CHECKING`."""
    assert [name for name in dir(kymograph) if not name.startswith("__")] == kymograph.__all__
    assert all(hasattr(kymograph, name) for name in dir(kymograph))


def after(code: str) -> str:
    """Returns what a fresh process prints after executing ``code``."""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_without_the_science_its_names_are_gone_and_say_what_to_install() -> None:
    code = """
import tests.without_studies
import kymograph as ky
assert not {"audit", "rules"} & {*ky.__all__, *dir(ky)}
assert all(getattr(ky, name) is not None for name in ky.__all__)
for use in ("ky.audit", "ky.rules.make"):
    try:
        eval(use)
    except ky.KymographError as error:
        print(error)
"""
    needs = "needs the package kymograph_studies, which is not installed; install it with `pip install"
    assert after(code).splitlines() == [
        f"kymograph.{name} {needs} 'kymograph[studies]'`" for name in ("audit", "rules")
    ]


def test_without_torch_every_name_works_or_says_that_it_needs_torch() -> None:
    code = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name.split(".")[0] == "torch" else find(name, path, target))
import kymograph as ky
for name in ky.__all__:
    try:
        getattr(ky, name)
    except ky.KymographError as error:
        assert str(error) == (f"kymograph.{name} needs the package torch, which is not installed; "
                              "install it with `pip install torch`"), error
        print(name)
"""
    assert after(code).split() == ["ActiveRun", "Probe", "RecordedRun", "record"]


def test_importing_costs_next_to_nothing() -> None:
    heavy = "{'torch', 'numpy', 'matplotlib', 'scipy', 'tyro'} & set(__import__('sys').modules)"
    assert after(f"import kymograph; dir(kymograph); print({heavy})") == "set()"


@pytest.mark.parametrize("name", sorted(set(EXTENSIONS) - {"quantities"}))
def test_a_module_for_authors_needs_no_torch(name: str) -> None:
    """Listing verbs, drawing figures and submitting to a cluster work where torch is not installed."""
    assert after(f"import kymograph.{name}, sys; print('torch' in sys.modules)") == "False"


def test_every_module_that_is_not_for_authors_is_private() -> None:
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for name in modules if not name.startswith("_")} == {*EXTENSIONS, *FRAMEWORKS}


def test_no_room_has_the_name_of_a_public_function() -> None:
    """Importing `kymograph.report` would replace the function `kymograph.report` by the module."""
    modules = {path.stem for path in PACKAGE.iterdir()}
    packages = {path.parent.name for path in PACKAGE.rglob("__init__.py")} - {PACKAGE.name}
    for name in kymograph.__all__:
        assert name not in modules | packages, f"a room is called {name}, as the function kymograph.{name}"


# Types


def checked(directory: Path, code: str, *options: str) -> str:
    """Returns what mypy says about a file of a user."""
    mypy = pytest.importorskip("mypy.api")
    (directory / "mine.py").write_text(code)
    said, problems, _ = mypy.run([
        "--strict", "--python-executable", sys.executable, "--config-file=", f"--cache-dir={directory / 'cache'}",
        *options, str(directory / "mine.py"),
    ])  # fmt: skip
    assert not problems
    return str(said)


def test_a_name_that_does_not_exist_is_a_type_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module-level `__getattr__` used to make every name type-check."""
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    code = "import kymograph as ky\nky.record\nky.Outcome\nky.recrod\n"
    skip = ("--follow-imports=skip", str(PACKAGE / "__init__.py"))  # the types themselves are looked at below
    said = checked(tmp_path, code, *skip)
    assert 'mine.py:4: error: Module has no attribute "recrod"' in said, said
    assert "mine.py:2" not in said and "mine.py:3" not in said


@pytest.mark.slow
def test_every_public_name_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    lines = ["import kymograph as ky", *(f"reveal_type(ky.{name})" for name in kymograph.__all__)]
    for module in EXTENSIONS:
        names = public_names(extension(module))
        lines += [f"import kymograph.{module}", *(f"reveal_type(kymograph.{module}.{name})" for name in names)]
    said = checked(tmp_path, "\n".join(lines), "--follow-imports=silent")
    revealed = re.findall(r'mine\.py:(\d+): note: Revealed type is "(.+)"', said)
    assert len(revealed) == sum(line.startswith("reveal") for line in lines) and " error: " not in said, said
    assert not [lines[int(line) - 1] for line, kind in revealed if kind == "Any"]


# Engines


def test_run_and_the_command_line_have_one_default_engine() -> None:
    """It used to be `serial` in Python and `auto` on the command line."""
    code = """
import inspect, dataclasses, kymograph
from kymograph._cli.arguments import EngineOptions
print(inspect.signature(kymograph.run).parameters["engine"].default)
print({field.name: field.default for field in dataclasses.fields(EngineOptions)}["engine"])
"""
    assert after(code).split() == ["auto", "auto"]


@pytest.mark.slow
def test_a_script_that_runs_its_own_study_is_computed_in_its_process(tmp_path: Path) -> None:
    """A worker would have to run the script again up to its study, with other arguments."""
    script = tmp_path / "mine.py"
    began = 'import os, sys\nprint("began", os.getpid())\nassert sys.argv[1:] == ["--mine"]\n'
    ended = "print(len(ky.run(warmup_study, n_seeds=3, out='runs', quiet=True).finished))\n"
    script.write_text(began + STUDY + "\n" + ended)
    command = [sys.executable, str(script), "--mine"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("began") == 1 and done.stdout.split()[-1] == "6"


@pytest.mark.slow
def test_where_there_is_no_file_the_answer_is_one_sentence_on_every_engine(tmp_path: Path) -> None:
    for engine in ("auto", "serial", "processes"):
        code = STUDY + f"\nky.run(warmup_study, engine={engine!r}, out={str(tmp_path / 'runs')!r})\n"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (
            "KymographError: the code of warmup is neither in a file nor in a cell" in done.stderr
            and not (tmp_path / "runs").exists()
        )


# Who uses what


def imported(source: str) -> set[str]:
    """Returns the modules of the tool that Python code imports, those of which it imports private names included."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kymograph":
            parts = {f"{node.module}.{alias.name}" for alias in node.names if alias.name.startswith("_")}
            found |= {str(node.module)} | parts
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "kymograph"}
    return {name for name in found if any(part.startswith("_") for part in name.split("."))}


def test_nothing_that_users_read_imports_a_private_module() -> None:
    """Pages, examples, the notebook, and the files that `kymograph new` writes."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for language, content in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            if language == "python":
                assert not imported(content), page.name
        if page.parent.name == "howto":
            assert "kymograph._" not in page.read_text(), page.name
    for path in [*(ROOT / "examples").glob("*.py"), *PACKAGE.rglob("*.template"), *PACKAGE.rglob("*.py.txt")]:
        assert not re.search(r"(from|import) kymograph\._", path.read_text()), path.name
    assert "kymograph._" not in (ROOT / "docs" / "notebooks" / "first-experiment.ipynb").read_text()
    named = re.findall(r"^\.\. auto\w+:: (kymograph\S*)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert named and not [name for name in named if "._" in name]


def test_the_page_of_the_api_names_whatever_the_how_to_pages_import_from_the_science() -> None:
    """Its paths are for authors of rules, models, data sets and nulls."""
    listed = (ROOT / "docs" / "api.md").read_text()
    documented_modules = {name.rpartition(".")[0] for name in re.findall(r":: (kymograph_studies\S+)", listed)}
    for page in (ROOT / "docs" / "howto").glob("add-*.md"):
        found = re.findall(r"^ *from (kymograph_studies\S*) import", page.read_text(), re.MULTILINE)
        assert set(found) - {"kymograph_studies.analysis"} <= documented_modules, page.name


def test_the_science_imports_no_more_private_modules_than_it_did() -> None:
    """It joins the tool as a user's package does. Where it still knows the inside, the list may only shrink."""
    used = {name for path in SCIENCE.rglob("*.py") for name in imported(path.read_text())}
    assert used <= STILL_PRIVATE, f"import these from a public module: {sorted(used - STILL_PRIVATE)}"
    assert used >= STILL_PRIVATE, f"no longer used, take off the list: {sorted(STILL_PRIVATE - used)}"


STILL_PRIVATE = {
    "kymograph._claims.registration", "kymograph._claims.verdict", "kymograph._cli.arguments",
    "kymograph._cli.output", "kymograph._errors", "kymograph._experiments.result_text",
    "kymograph._experiments.running", "kymograph._experiments.stages", "kymograph._io.documents",
    "kymograph._io.files", "kymograph._io.pickles", "kymograph._io.tensors", "kymograph._io.writing",
    "kymograph._pictures.curves", "kymograph._pictures.figures", "kymograph._pictures.report_page.page",
    "kymograph._pictures.saving", "kymograph._pictures.scales", "kymograph._pictures.series",
    "kymograph._pictures.styles", "kymograph._pictures.verdict_table", "kymograph._rounding",
    "kymograph._runs.declaration", "kymograph._runs.directory", "kymograph._runs.log",
    "kymograph._runs.provenance", "kymograph._runs.record", "kymograph._runs.resume", "kymograph._runs.spec",
    "kymograph._runs.summaries", "kymograph._runs.tuned", "kymograph._shapes", "kymograph._statistics.effects",
    "kymograph._statistics.intervals", "kymograph._statistics.p_values", "kymograph._statistics.variances",
    "kymograph._streams", "kymograph._sweep.code_loading", "kymograph._wording",
}  # fmt: skip
"""The private modules of the tool that the science imports from (docs/decisions/0005-public-face.md)."""


def test_a_claim_needs_neither_setup_nor_origin() -> None:
    loss = kymograph.Measure("loss")
    left, right = kymograph.Side("a", loss), kymograph.Side("b", loss)
    short = kymograph.Claim("a below b", "s", "loss is lower in a", left, right, "less", 0.1)
    spelt = kymograph.Claim(
        "a below b", "s", "loss is lower in a", left, right, "less", 0.1, setup="own", origin="the author of the study"
    )
    assert short == spelt and short.hash == spelt.hash
    assert [*short.content][:5] == ["name", "study", "setup", "text", "origin"], "as they are stored"


# What the functions take


def test_a_report_is_of_a_directory_or_of_a_store(beside: Path) -> None:
    whole = kymograph.report("runs", "whole.html").read_text()
    some = kymograph.report(kymograph.Store.open("runs").select(seeds=[42, 123, 456]), "deep/er/some.html").read_text()
    assert "sharpness: warmup &lt; constant" in whole and "sharpness: warmup &lt; constant" in some
    assert len(some) < len(whole) and "3 of 10 registered seeds" in some
    mine = [kymograph.Claim.compare("sharpness", "constant", ">", 1.5, scale="difference", name="mine")]
    stated = [dataclasses.replace(claim, study="warmup") for claim in mine]
    assert "mine" in kymograph.report("runs", "mine.html", claims=stated, title="Mine").read_text()
    with pytest.raises(kymograph.KymographError, match="these runs are in no directory"):
        kymograph.report(kymograph.Store([]), "none.html")
    assert not Path("none.html").exists()


def test_claims_are_registered_from_a_list_a_file_or_a_study(beside: Path) -> None:
    claim = dataclasses.replace(kymograph.Claim.compare("sharpness", "warmup", "<", "constant"), study="warmup")
    Path("claims.py").write_text(
        "import dataclasses, kymograph as ky\n"
        'CLAIMS = [dataclasses.replace(ky.Claim.compare("sharpness", "warmup", "<", "constant"), study="warmup")]\n'
    )
    one, other = (kymograph.register(name, given) for name, given in (("a", [claim]), ("b", Path("claims.py"))))
    assert one[0].claims == other[0].claims
    (of_study,) = kymograph.register("c", "warmup.py")
    assert of_study.terms.settings.of("warmup")["warmup_steps"] == 2, "the study's code says what its arms are"


def test_verify_takes_a_directory_or_a_bundle(beside: Path) -> None:
    from kymograph._sharing.bundle import write_bundle

    write_bundle("runs", "runs.zip", {})
    packed = kymograph.verify("runs.zip")
    assert packed[0].what == "the bundle" and all(result.holds for result in packed)
    assert [result.what for result in packed[1:]] == [result.what for result in kymograph.verify("runs")]
    with pytest.raises(kymograph.KymographError, match=r"there is no|contains no runs"):
        kymograph.verify("nowhere")
