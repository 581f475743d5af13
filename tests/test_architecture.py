"""The house rules that a reader relies on: imports flow one way, stored runs need no torch, public names are few."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import kymograph
from kymograph.studies.loading import STUDIES

PACKAGE = Path(kymograph.__file__).parent
# A room may import from itself and from rooms before it.
ROOMS = [
    "errors", "rounding", "wording", "streams", "foreign", "registry", "shapes", "statistics", "data", "models",
    "rules", "probes", "training", "analysis", "runs", "sweep", "claims", "figures", "studies", "report", "live", "lab",
    "bench", "cli", "__main__",
]  # fmt: skip
WITHOUT_TORCH = (
    "statistics", "runs.archive", "runs.export", "sweep.engines.base", "sweep.engines.processes", "sweep.engines.dask",
    "sweep.engines.slurm", "claims.judge",
    "claims.selftest", "figures.curves", "figures.kymograph", "studies.loading", "studies.clipping.figures",
    "studies.depth.figures", "studies.snapshot.figures", "studies.calibration.figures", "studies.audit.figures",
    "report.page", "live.terminal", "live.web", "lab.run", "lab.judge", "lab.audit", "lab.figures", "lab.report",
    "lab.reproduce", "cli.main",
)  # fmt: skip
KNOW_NO_STUDY = ("report", "live", "claims", "sweep", "runs")
MOST_LINES = 400


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


def test_imports_flow_one_way() -> None:
    against = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == PACKAGE / "__init__.py":
            continue  # re-exports from everywhere, lazily
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in imports_of(path):
            if ROOMS.index(name.split(".")[1]) > ROOMS.index(room):
                against.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert not against


def test_importing_what_reads_stored_runs_does_not_import_torch() -> None:
    """In one process: what was imported before can hide nothing, for torch would stay imported."""
    code = f"""
import importlib, sys
for module in {WITHOUT_TORCH!r}:
    importlib.import_module("kymograph." + module)
    if "torch" in sys.modules:
        sys.exit("kymograph." + module + " imports torch")
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("room", KNOW_NO_STUDY)
def test_no_room_right_of_the_studies_runs_knows_a_study_by_name(room: str) -> None:
    """What these rooms need to know about a study is data that the study declares."""
    names = set(STUDIES.names())
    for path in (PACKAGE / room).rglob("*.py"):
        if path.name == "script_logs.py":
            continue  # the reader of the research scripts' logs
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Constant) and node.value in names:
                raise AssertionError(f"{path.relative_to(PACKAGE)}, line {node.lineno} names the study {node.value!r}")


def test_no_module_is_too_long_to_read() -> None:
    lengths = {path.relative_to(PACKAGE): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {str(path): count for path, count in lengths.items() if count > MOST_LINES} == {}


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "cli" / "verbs") or path.is_relative_to(PACKAGE / "sweep" / "engines"):
            continue  # every verb has its Options, and every engine is an Engine
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_only_the_dispatch_of_verbs_touches_the_environment() -> None:
    """`--data-dir` used to travel through the environment."""
    for path in PACKAGE.rglob("*.py"):
        assert "os.environ[" not in path.read_text(), f"{path.relative_to(PACKAGE)} changes or needs the environment"


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


def test_the_public_names_are_these_and_no_others() -> None:
    assert kymograph.__all__ == [
        "ActiveRun", "Arm", "Check", "Claim", "KymographError", "LabelledArray", "Measure", "Probe", "Side",
        "RunResult", "RunSeries", "RunSpec", "SeriesDisplay", "Store", "StoredRun", "Study", "Tuned", "Verdicts",
        "audit", "difference_map", "export", "figure", "fixed_seeds", "generator", "judge", "list_studies",
        "load_study", "record", "run", "study",
    ]  # fmt: skip
    assert len(kymograph.__all__) <= 30
    for name in kymograph.__all__:
        assert getattr(kymograph, name) is not None
        assert name in dir(kymograph)
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = kymograph.absent


def test_every_public_function_and_class_says_what_it_is_in_its_first_line() -> None:
    for path in PACKAGE.rglob("*.py"):
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
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "bench":
            continue  # the naive baselines work as the scripts do
        if path.name == "global_randomness.py":
            continue  # users' code draws from the global generators: this sets them by a run's seed and gives them back
        text = path.read_text()
        for banned in ("manual_seed(", "np.random.seed", "random.seed(", ".norm(-1)", "cosine_similarity("):
            if banned == "manual_seed(" and path.name == "streams.py":
                continue
            assert banned not in text.replace("``torch.manual_seed(seed)``", "").replace("``random.seed(seed)``", ""), (
                f"{path.name} uses {banned}"
            )


READS = {"open", "load", "loads", "read_bytes", "read_text", "fdopen", "memmap", "fromfile", "loadtxt", "genfromtxt",
         "scandir", "iterdir"}  # fmt: skip
OUR_OWN = {
    # module: what it reads without `kymograph.io`, and why that may be
    "cli/exit_status.py": {"fdopen"},  # the traceback that is being written
    "lab/new_study.py": {
        "read_text",
        "read_bytes",
    },  # the package's own templates; a file as long as what it would write
    "report/assets.py": {"read_text"},  # the package's own templates
    "runs/provenance.py": {"read_bytes", "read_text"},  # the package's own source; /proc/cpuinfo, whose size is 0
    "runs/processes.py": {"read_text"},  # /proc, whose files have a size of 0
    "cli/guarded_output.py": {"open"},  # the null device, to write to
    "sweep/worker.py": {"fdopen", "open"},  # the pipe to the process that started it; the null device, to write to
    "sweep/engines/processes.py": {"loads"},  # the answers of workers that this process started, by pipe
    "sweep/engines/dask.py": {"loads"},  # orders and answers that Dask carries
    "live/web.py": {"loads"},  # the state that this process has just made
    "runs/resume.py": {"load", "loads"},  # tensors whose header was checked; a text that was made in the same line
    "training/checkpoint.py": {"load"},  # tensors whose header was checked
    "report/provenance.py": {"loads"},  # a text that was made a line before
    "cli/arguments.py": {"loads"},  # a word of the command line
    "cli/main.py": {"open"},  # /dev/null
    "lab/bundle.py": {"open"},  # members of an archive that was checked
    "runs/files.py": {"open"},  # the temporary file that is being written
    "data/cifar10_files.py": {"open"},  # an archive whose checksum was compared
}


def reads_of(path: Path) -> set[str]:
    """Returns the functions with which a file reads files or parses texts, other than those of `kymograph.io`."""
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
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("foreign/") and (found := reads_of(path) - OUR_OWN.get(name, set())):
            unguarded[name] = found
    assert not unguarded


def test_every_exception_to_that_is_still_one() -> None:
    for name, reads in OUR_OWN.items():
        assert reads_of(PACKAGE / name) == reads, name


def test_every_python_that_is_started_ignores_the_current_directory() -> None:
    """Python with -m or -c imports from the current directory first; -P makes it not to."""
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            if "sys.executable" in line and ("-m" in line.split() or '"-m"' in line):
                assert "-P" in line, f"{path.relative_to(PACKAGE)}: {line.strip()}"
