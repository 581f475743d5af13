"""Where numbers come from: versions, hardware and a hash of the source."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import sys
from pathlib import Path
from typing import Any

from kymograph._registry import PACKAGES


@functools.cache
def code_hash() -> str:
    """Returns a hash over every source file of this package and of the studies shipped with it, in a fixed order."""
    total = hashlib.sha256()
    for name, path in built_in_files().items():
        total.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def built_in_files() -> dict[str, Path]:
    """Returns every source file that `code_hash` covers, by its path in the packages."""
    home = Path(__file__).resolve().parents[2]
    paths = [path for package in PACKAGES for path in sorted((home / package).rglob("*.py"))]
    return {path.relative_to(home).as_posix(): path for path in paths}


@functools.cache
def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that affect numbers."""
    numbers = {"python": platform.python_version()}
    for name in ("kymograph", "torch", "numpy"):
        try:
            numbers[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            numbers[name] = "not installed"
    return numbers


@functools.cache
def hardware() -> dict[str, str]:
    """Returns the processor's name and the operating system."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"processor": name, "system": f"{platform.system()} {platform.machine()}"}


def accelerator(device: str) -> dict[str, object]:
    """Returns an accelerator's name, its software versions, and the torch settings that affect its arithmetic.

    Empty for the CPU, and in a process that has not loaded torch, which computes nothing on an accelerator.
    """
    kind, _, index = device.partition(":")
    torch = sys.modules.get("torch")
    if kind == "cpu" or torch is None:
        return {}
    deterministic = {"deterministic_algorithms": torch.are_deterministic_algorithms_enabled()}
    if kind != "cuda":
        return {"name": hardware()["processor"], **deterministic}
    backends = torch.backends
    return {
        "name": torch.cuda.get_device_name(int(index or torch.cuda.current_device())),
        "cuda": torch.version.cuda,
        "cudnn": backends.cudnn.version(),
        "tf32_matmul": _allows_tf32(backends.cuda.matmul),
        "tf32_cudnn": _allows_tf32(backends.cudnn),
        **deterministic,
        "cudnn_deterministic": backends.cudnn.deterministic,
        "cudnn_benchmark": backends.cudnn.benchmark,
    }


def _allows_tf32(backend: Any) -> bool:
    """Returns whether float32 products may be rounded to TF32, whose mantissa has only 10 bits, like float16's."""
    try:
        return bool(backend.allow_tf32)
    except RuntimeError:  # it was set by its newer name, after which torch refuses to read this one
        return str(backend.fp32_precision) == "tf32"


def provenance(device: str, threads: int) -> dict[str, object]:
    """Returns everything about this process that may affect a number it computes."""
    extra = accelerator(device)
    return {
        "versions": versions(),
        "hardware": hardware(),
        "code": code_hash(),
        "device": device,
        "threads": threads,
        "byteorder": sys.byteorder,
        **({"accelerator": extra} if extra else {}),
    }
