"""The house rules that a reader relies on: imports flow one way, stored runs need no torch, public names are few."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import kymograph
import kymograph_studies
from kymograph._studies.loading import STUDIES

PACKAGE, SCIENCE = (Path(package.__file__).parent for package in (kymograph, kymograph_studies))
ROOT = Path(__file__).parents[1]
ROOMS = {
    # A room may import from itself and from rooms before it.
    PACKAGE: [
        "_errors", "_lazy", "_rounding", "_wording", "_streams", "_io", "_registry", "_shapes", "_statistics", "_runs",
        "_probes", "_sweep", "_studies", "_claims", "_experiments", "_selftest", "_pictures", "_sharing", "_cli",
        "__main__",
        "engines", "figures", "formats", "hf", "lightning", "panels", "parts", "quantities", "studies", "verbs",
    ],
    SCIENCE: [
        "labels", "script_randomness", "data", "models", "rules", "analysis", "training", "published", "clipping",
        "scripts", "depth", "snapshot", "calibration", "audit", "rule_family", "prove_rules", "variance",
        "variance_panel", "verdict_page", "reproduce", "verbs",
    ],
}  # fmt: skip
WITHOUT_TORCH = (
    "kymograph._statistics.p_values", "kymograph._runs.directory", "kymograph._runs.formats", "kymograph._runs.listing",
    "kymograph._sweep.engines.base", "kymograph._sweep.engines.local", "kymograph._sweep.engines.dask",
    "kymograph._sweep.engines.slurm", "kymograph._studies.loading", "kymograph._claims.judge",
    "kymograph._selftest.rates",
    "kymograph._experiments.running", "kymograph._pictures.curves", "kymograph._pictures.kymograph",
    "kymograph._pictures.figures", "kymograph._pictures.report_page.page", "kymograph._pictures.live.terminal",
    "kymograph._pictures.live.web", "kymograph._sharing.verify", "kymograph._cli.main",
    "kymograph_studies.clipping.figures", "kymograph_studies.depth.figures", "kymograph_studies.snapshot.figures",
    "kymograph_studies.calibration.figures", "kymograph_studies.audit.figures", "kymograph_studies.audit.checkpoint",
    "kymograph_studies.rule_family.figures", "kymograph_studies.reproduce", "kymograph_studies.verbs",
)  # fmt: skip
TYPES_ONLY = {("_studies/study.py", "kymograph._claims.claim.Claim")}
"""Imports against the order that exist for the type checker alone."""


def modules() -> list[Path]:
    """Returns the source files of both packages."""
    return sorted([*PACKAGE.rglob("*.py"), *SCIENCE.rglob("*.py")])


def label(path: Path) -> str:
    """Returns a file's path in messages: that in its package, which a module of the science names."""
    return (
        path.relative_to(PACKAGE).as_posix()
        if path.is_relative_to(PACKAGE)
        else path.relative_to(SCIENCE.parent).as_posix()
    )


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a source file, which a dozen tests look at."""
    return ast.parse(path.read_text())


def imports_of(path: Path) -> set[str]:
    """Returns the kymograph modules that a source file imports, anywhere in it."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kymograph"):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("kymograph")}
    return found


@pytest.mark.parametrize("package", ROOMS, ids=lambda package: package.name)
def test_imports_flow_one_way(package: Path) -> None:
    against = []
    rooms = ROOMS[package]
    for path in sorted(package.rglob("*.py")):
        if path == package / "__init__.py":
            continue  # the tool's re-exports from everywhere, lazily
        room = path.relative_to(package).parts[0].removesuffix(".py")
        for name in imports_of(path):
            top, *rest = name.split(".")
            if (label(path), name) in TYPES_ONLY or top != package.name or not rest:
                continue
            target = rest[0]
            if rooms.index(target) > rooms.index(room):
                against.append(f"{label(path)} imports {name}")
    assert not against


def test_the_tool_does_not_know_the_science() -> None:
    """One exception: the lazy public names of the science, `kymograph.rules` and `kymograph.audit`."""
    for path in PACKAGE.rglob("*.py"):
        names = {name for name in imports_of(path) if name.startswith("kymograph_studies")}
        assert not names or path == PACKAGE / "__init__.py", f"{label(path)} imports {names}"
        if path != PACKAGE / "__init__.py":
            strings = {node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)}
            assert not [text for text in strings if str(text).startswith("kymograph_studies.")], label(path)


def test_without_the_science_the_tool_imports_and_works() -> None:
    code = """
import importlib, pkgutil, sys
import tests.without_studies
import kymograph
for module in pkgutil.walk_packages(kymograph.__path__, "kymograph."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert error.name in ("lightning", "transformers") and module.name.endswith("_callback"), error
assert kymograph.list_studies() == []
from kymograph._cli.main import VERBS
assert "run" in VERBS.names() and "audit" not in VERBS.names()
assert not any(name.startswith("kymograph_studies") for name in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr


def test_importing_what_reads_stored_runs_does_not_import_torch() -> None:
    """In one process: what was imported before can hide nothing, for torch would stay imported."""
    code = f"""
import importlib, sys
for module in {WITHOUT_TORCH!r}:
    importlib.import_module(module)
    if "torch" in sys.modules:
        sys.exit(module + " imports torch")
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_the_tool_names_no_study_of_the_science() -> None:
    """What it needs to know about a study is data that the study declares."""
    names = set(STUDIES.names())
    assert names >= {"clipping", "depth", "rule-family"}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(parsed(path)) if path != PACKAGE / "__init__.py" else ():  # the lazy name `audit`
            if isinstance(node, ast.Constant) and node.value in names:
                raise AssertionError(f"{label(path)}, line {node.lineno} names the study {node.value!r}")


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        if path.is_relative_to(PACKAGE / "_sweep" / "engines") or path.stem.endswith("_callback"):
            continue  # every engine is an Engine, and every framework's callback a KymographCallback
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(label(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def changes_the_environment(tree: ast.AST) -> bool:
    """Returns whether code assigns to, deletes from or updates `os.environ`, or calls `os.putenv` or `os.unsetenv`."""
    environ = ("os.environ", "environ")
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in environ:
            return True  # reading by key needs the variable, which a message should name: `os.environ.get` does not
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, method = ast.unparse(node.func.value), node.func.attr
            if owner in environ and method in ("update", "setdefault", "pop", "popitem", "clear", "__setitem__"):
                return True
            if owner == "os" and method in ("putenv", "unsetenv"):
                return True
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in environ:
            return True
    return False


@pytest.mark.parametrize(
    "code",
    ["os.environ['A'] = 'b'", "os.environ.update(A='b')", "os.environ |= {'A': 'b'}", "os.putenv('A', 'b')",
     "del os.environ['A']", "os.environ.setdefault('A', 'b')", "os.environ.pop('A')"],
)  # fmt: skip
def test_every_way_to_change_the_environment_is_noticed(code: str) -> None:
    assert changes_the_environment(ast.parse(code)) and not changes_the_environment(ast.parse("os.environ.get('A')"))


def test_no_module_changes_the_environment() -> None:
    """`--data-dir` used to travel through the environment."""
    for path in modules():
        name = label(path)
        assert changes_the_environment(parsed(path)) == (name in CHANGING), f"{name} changes the environment"


CHANGING = {
    "_runs/formats/trackers.py",  # turns MLflow's telemetry off before importing it, unless the user turned it on
    "_sweep/worker_process.py",  # sets the variables that travel with an order, for as long as it is carried out
}


def test_stored_runs_are_read_drawn_and_exported_without_torch(depth_store, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None  # importing torch now raises ImportError
import kymograph
store = kymograph.Store.open({str(depth_store.root)!r})
kymograph.figure("depth-kymograph", store)
kymograph.export(store, "json", {str(tmp_path / "runs.json")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "runs.json").stat().st_size > 1000


def test_every_public_function_and_class_says_what_it_is_in_its_first_line() -> None:
    for path in modules():
        tree = parsed(path)
        nodes = [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef))]
        for node in nodes:
            name = getattr(node, "name", path.name)
            if not name.startswith("_") and name != "__init__.py":
                inner = isinstance(node, ast.FunctionDef) and not any(
                    node in getattr(parent, "body", []) for parent in nodes if not isinstance(parent, ast.FunctionDef)
                )
                private = any(isinstance(p, ast.ClassDef) and p.name.startswith("_") and node in p.body for p in nodes)
                if isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list):
                    continue  # the docstring is that of the implementation
                assert inner or private or ast.get_docstring(node), f"{path.name}: {name} has no docstring"


def test_no_module_uses_a_global_generator_or_a_norm_without_dim() -> None:
    for path in modules():
        if path.name == "global_generators.py":
            continue  # users' code draws from the global generators: this sets them by a run's seed and gives them back
        text = path.read_text()
        for banned in ("manual_seed(", "np.random.seed", "random.seed(", ".norm(-1)", "cosine_similarity("):
            if banned == "manual_seed(" and path.name in ("_streams.py", "script_randomness.py"):
                continue
            assert banned not in text.replace("``torch.manual_seed(seed)``", "").replace("``random.seed(seed)``", ""), (
                f"{path.name} uses {banned}"
            )


READS = {"open", "load", "loads", "read_bytes", "read_text", "fdopen", "memmap", "fromfile", "loadtxt", "genfromtxt",
         "scandir", "iterdir"}  # fmt: skip
OUR_OWN = {
    # module: what it reads without `kymograph._io`, and why that may be
    "_cli/arguments.py": {"loads"},  # a word of the command line
    "_cli/main.py": {"fdopen", "open"},  # the traceback that is being written; /dev/null
    "_cli/output.py": {"open"},  # the null device, to write to
    "_cli/verbs/experiment.py": {"read_text", "read_bytes"},  # our own templates; a file as long as what it would write
    "_experiments/trainer_callback.py": {"load"},  # tensors whose header was checked
    "_pictures/live/web.py": {"loads"},  # the state that this process has just made
    "_pictures/report_page/methods.py": {"loads"},  # a text that was made a line before
    "_pictures/report_page/assets.py": {"read_text"},  # the package's own templates
    "_runs/log.py": {"open"},  # this process's own segment, to append to
    "_runs/provenance.py": {"read_bytes", "read_text"},  # our own source; /proc/cpuinfo, whose size is 0
    "_runs/resume.py": {"load"},  # tensors whose header was checked
    "_sharing/bundle.py": {"open"},  # members of an archive that was checked
    "_sweep/engines/dask.py": {"loads"},  # orders and answers that Dask carries
    "_sweep/engines/local.py": {"loads"},  # the answers of workers that this process started, by pipe
    "_sweep/worker.py": {"fdopen", "open"},  # the pipe to the process that started it; the null device, to write to
    "kymograph_studies/data/cifar10_files.py": {"open"},  # an archive whose checksum was compared
    "kymograph_studies/training/checkpoints.py": {"load"},  # tensors whose header was checked
}


def reads_of(path: Path) -> set[str]:
    """Returns the functions with which a file reads files or parses texts, other than those of `kymograph._io`."""
    tree = parsed(path)
    guarded = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kymograph")
        for alias in node.names
    }
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in READS - guarded:
            found.add(node.func.id)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in READS:
            owner = ast.unparse(node.func.value)
            # A study, a registry or an archive of runs is loaded or opened by functions of ours.
            if node.func.attr in ("load", "open") and owner.split("(")[0] not in LIBRARIES:
                continue
            found.add(node.func.attr)
    return found


LIBRARIES = {"json", "os", "io", "torch", "np", "numpy", "pickle", "tomllib", "zipfile", "tarfile", "gzip", "path",
             "target", "source.path", "bundle", "Path", "directory", "folder", "file"}  # fmt: skip


def test_files_of_others_are_read_in_one_place() -> None:
    """A bare `open` waits for a pipe, and a bare `json.loads` dies of deep nesting."""
    unguarded = {}
    for path in modules():
        name = label(path)
        if not name.startswith("_io/") and (found := reads_of(path) - OUR_OWN.get(name, set())):
            unguarded[name] = found
    assert not unguarded


def test_every_exception_to_that_is_still_one() -> None:
    for name, reads in OUR_OWN.items():
        home = SCIENCE.parent if name.startswith("kymograph_studies/") else PACKAGE
        assert reads_of(home / name) == reads, name


def test_every_python_that_is_started_ignores_the_current_directory() -> None:
    """Python with -m or -c imports from the current directory first; -P prevents that."""
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            if "sys.executable" in line and ("-m" in line.split() or '"-m"' in line):
                assert "-P" in line, f"{path.relative_to(PACKAGE)}: {line.strip()}"
