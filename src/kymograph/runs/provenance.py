"""Where numbers come from: versions, hardware and a hash of this package's own source."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import sys
from pathlib import Path


@functools.cache
def code_hash() -> str:
    """Returns a hash over every source file of this package, in a fixed order."""
    package = Path(__file__).resolve().parent.parent
    total = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        total.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


@functools.cache
def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that make numbers."""
    found = {"python": platform.python_version()}
    for name in ("kymograph", "torch", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


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


def provenance(device: str, threads: int) -> dict[str, object]:
    """Returns everything about this process that may matter to a number it computes."""
    return {
        "versions": versions(),
        "hardware": hardware(),
        "code": code_hash(),
        "device": device,
        "threads": threads,
        "byteorder": sys.byteorder,
    }
