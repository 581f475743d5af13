"""Every kind of file that a verb reads: a sample of it, which verbs read it, and how it is forged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.stage import IMAGES

OUT = "../out"
RUNS: Mapping[tuple[str, ...], float] = {
    ("judge", "runs", "--json", f"{OUT}/v.json"): 4,
    ("judge", "runs", "--study", "coin", "--markdown", f"{OUT}/v.md", "--wide"): 2,
    ("report", "runs", "-o", f"{OUT}/r.html"): 3,
    ("show",): 4,
    ("show", "--json"): 3,
    ("show", "fair/s1"): 2,
    ("show", "--status", "damaged", "--where", "lr=0.1"): 1,
    ("show", "--where", "heads<1", "--sort", "seconds", "--descending"): 1,
    ("watch", "runs", "--once"): 4,
    ("verify", "runs"): 5,
    ("export", "runs", "--to", "csv", "--output", f"{OUT}/x.csv"): 3,
    ("export", "runs", "--to", "json", "--output", f"{OUT}/x.json"): 2,
    ("export", "runs", "--to", "csv-summary", "--output", f"{OUT}/x.csv"): 2,
    ("export", "runs", "--to", "parquet", "--output", f"{OUT}/x.parquet"): 1,
    ("export", "runs", "--to", "tensorboard", "--output", f"{OUT}/tb"): 1,
    ("export", "runs", "--to", "mlflow", "--output", f"{OUT}/m.db"): 0.02,
    ("bundle", "runs", "-o", f"{OUT}/b.zip"): 1,
    ("figure", "coin-curves", "--dir", "runs", "-o", f"{OUT}/f"): 0.05,
    ("abandon", "runs", "--reason", "too dear", "--study", "coin", "--finished"): 1,
    ("run", "coin.py", "--seeds", "1", "2", "3", "--dir", "runs", "--engine", "serial", "--quiet"): 2,
    ("register", "claims.toml"): 1,
}
"""Commands on a directory of runs, and how often each is drawn: those that take long are drawn seldom."""
_IMAGE_OPTIONS = tuple(word for key, value in IMAGES.items() for word in (f"--{key.replace('_', '-')}", str(value)))
_NETWORK = ("--images", "8", "--data-dir", "cifar")
_HALF = ("run", "snapshot", "--seeds", "1", "--arms", "resmlp/dfa", *_IMAGE_OPTIONS, "--checkpoint-every", "1",
         "--data-dir", "cifar", "--dir", "half", "--engine", "serial", "--quiet")  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A kind of file."""

    name: str
    pattern: str
    """Finds its samples on the stage."""
    needs: tuple[str, ...]
    """Which samples are copied."""
    commands: Mapping[tuple[str, ...], float]
    weight: float = 1.0
    forge: str = ""
    """How a value in it is replaced and signed anew: ``record``, ``log``, ``json`` or ``tensors``."""
    sealed: bool = False
    """Whether a checksum covers it, so that no changed byte may pass."""
    writable: tuple[str, ...] = ("runs", "half", "beating", "stopped")
    """Samples that the commands write to, because they are asked to."""

    @property
    def trained(self) -> bool:
        """Whether its samples take training."""
        return "cifar" in self.needs

    def samples(self, root: Path) -> list[Path]:
        """Returns the files of this kind below ``root``, in order."""
        return sorted(path for path in root.glob(self.pattern) if path.is_file())


_COIN = ("runs", "coin.py", "claims.toml")
TARGETS = (
    Target("config", "runs/coin/*/config.json", _COIN, RUNS, 4, "record", sealed=True),
    Target("summary", "runs/coin/*/summary.json", _COIN, RUNS, 4, "record", sealed=True),
    Target("arrays", "runs/coin/*/arrays.safetensors", _COIN, RUNS, 4, "record", sealed=True),
    Target("status", "runs/coin/*/status.json", _COIN, RUNS, 4, "record"),
    Target("traceback", "runs/coin/*/traceback.txt", _COIN, RUNS, 1, "record", sealed=True),
    Target("declaration", "runs/coin/study.json", _COIN, RUNS, 3, "json"),
    Target("log", "runs/log/*.jsonl", _COIN, RUNS, 4, "log", sealed=True),
    Target("claims", "claims.toml", _COIN, {
        ("judge", "runs", "--claims", "claims.toml"): 4,
        ("register", "claims.toml", "--dir", f"{OUT}/new"): 2,
        ("power", "claims.toml", "--n", "6", "--effect", "1"): 0.05,
    }, 2),
    Target("settings", "settings.toml", ("settings.toml", "coin.py"), {
        ("run", "coin.py", "--config", "settings.toml", "--dir", f"{OUT}/new", "--engine", "serial", "--quiet"): 1,
    }, 2),
    Target("csv", "*/loss.csv", ("ours", "theirs"), {
        ("judge", "ours", "theirs", "--csv", "--direction", "less", "--json", f"{OUT}/v.json"): 1,
    }, 2),
    Target("script log", "log.json", ("log.json",), {
        ("figure", "snapshot-resmlp", "--dir", "log.json", "-o", f"{OUT}/f"): 1,
    }, 0.7, "json"),
    Target("heartbeat", "beating/coin/.running/*.json", ("beating", "coin.py"), {
        ("watch", "beating", "--once"): 4,
        ("show", "--dir", "beating"): 1,
        ("judge", "beating"): 1,
        ("verify", "beating"): 1,
        ("run", "coin.py", "--seeds", "1", "4", "--dir", "beating", "--engine", "serial", "--quiet"): 2,
    }, 1, "json"),
    Target("state", "stopped/loop/*.part/state.safetensors", ("stopped", "loop.py"), {
        ("run", "loop.py", "--seeds", "1", "--arms", "slow", "--dir", "stopped", "--engine", "serial", "--quiet"): 1,
    }, 1, "tensors"),
    Target("bundle", "runs.zip", ("runs.zip",), {("verify", "runs.zip"): 1}, 2, sealed=True),
    Target("checkpoint", "image/snapshot/*/checkpoint.safetensors", ("image", "cifar"), {
        ("calibrate", "image/snapshot/RUN", "--draws", "19", *_NETWORK, "-o", f"{OUT}/c"): 1,
        ("audit", "image/snapshot/RUN", "--no-ladder", *_NETWORK): 0.1,
    }, 0.7, "record", sealed=True),
    Target("script network", "net.pt", ("net.pt", "cifar"), {
        ("calibrate", "net.pt", "--draws", "19", *_NETWORK, "-o", f"{OUT}/c"): 1,
        ("audit", "net.pt", "--no-ladder", *_NETWORK): 0.1,
    }, 0.7),
    Target("resume", "half/snapshot/*.part/resume.safetensors", ("half", "cifar"), {_HALF: 1}, 0.4, "tensors"),
    Target("CIFAR-10", "cifar/*/*batch*", ("half", "cifar"), {_HALF: 1}, 0.4),
)  # fmt: skip
