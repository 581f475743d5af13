"""The lock file, the bill of materials, and that both are about the tested set."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from types import ModuleType

import pytest
import torch
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
WITHOUT = {"torch"}
"""Its builds share a version and differ in their files."""


def pinned(path: Path) -> dict[str, str]:
    """Returns the versions that a file pins, by the one spelling of each name."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE)
    return {spelled(name): version for name, version in found}


def spelled(name: str) -> str:
    """Returns the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_file_is_the_tested_set_and_every_package_has_its_hashes() -> None:
    lock = ROOT / "requirements.lock"
    constraints = pinned(ROOT / "constraints.txt")
    assert set(constraints) >= WITHOUT
    expected = {name: version for name, version in constraints.items() if name not in WITHOUT}
    assert pinned(lock) == expected, "constraints.txt changed: `make lock` writes requirements.lock anew"
    for entry in re.split(r"\n(?=[A-Za-z])", re.sub(r"^#.*\n", "", lock.read_text(), flags=re.MULTILINE).strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.splitlines()[0]


@pytest.mark.skipif(torch.version.cuda is not None, reason="pinned is torch's CPU build, which needs fewer packages")
def test_whatever_a_pinned_package_needs_is_pinned() -> None:
    """The lock file is installed without looking for dependencies: a package that it lacks is missing."""
    constraints = pinned(ROOT / "constraints.txt")
    looked_at = 0
    for name in constraints:
        with contextlib.suppress(PackageNotFoundError):  # what only some platforms or extras need may not be here
            wanted = [Requirement(text) for text in distribution(name).requires or ()]
            here = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
            lacking = [one.name for one in here if spelled(one.name) not in constraints]
            assert not lacking, f"{name} needs {', '.join(lacking)}: pin it in constraints.txt, then `make lock`"
            looked_at += 1
    assert looked_at > 100


def test_the_lock_file_names_no_index_and_no_machine() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://|^-|file:|/opt/|/home/|/root/|/work/", text, re.MULTILINE)


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    """The script that prints the bill of materials."""
    spec = importlib.util.spec_from_file_location("sbom", ROOT / ".ci" / "sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_has_every_package_once_and_refers_to_nothing_else(sbom: ModuleType) -> None:
    bill = sbom.bill(distributions())
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == "kymograph"
    references = [one["bom-ref"] for one in (bill["metadata"]["component"], *bill["components"])]
    assert len(set(references)) == len(references)
    installed = {spelled(one.metadata["Name"]) for one in distributions()}
    assert {one.split("/")[1].split("@")[0] for one in references} == installed
    assert {one["ref"] for one in bill["dependencies"]} == set(references)
    assert all(set(one["dependsOn"]) <= set(references) for one in bill["dependencies"])
    ours = next(one for one in bill["dependencies"] if one["ref"] == bill["metadata"]["component"]["bom-ref"])
    assert {"numpy", "torch", "safetensors"} <= {one.split("/")[1].split("@")[0] for one in ours["dependsOn"]}


@pytest.mark.slow
def test_the_same_packages_give_the_same_bill(sbom: ModuleType) -> None:
    # By name, because other tests of this process may have made a second copy of a package importable.
    packages = list({one.metadata["Name"]: one for one in distributions()}.values())
    assert sbom.bill(packages) == sbom.bill(reversed(packages))
