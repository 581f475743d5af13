"""Prints what is installed here as a software bill of materials: CycloneDX 1.5, JSON, from the packages' own metadata.

python .ci/sbom.py > sbom.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from typing import Any

PRODUCT = "kymograph"


def normal(name: str) -> str:
    """Returns the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reference(found: Distribution) -> str:
    """Returns the package URL, which names a package and its version anywhere."""
    return f"pkg:pypi/{normal(found.metadata['Name'])}@{found.version.replace('+', '%2B')}"


def component(found: Distribution, kind: str = "library") -> dict[str, Any]:
    """Returns what the bill says of one package."""
    facts = {
        "type": kind,
        "bom-ref": reference(found),
        "name": found.metadata["Name"],
        "version": found.version,
        "purl": reference(found),
    }
    licence = found.metadata.get("License-Expression")
    classifiers = found.metadata.get_all("Classifier") or ()
    classified = [one.rsplit("::", 1)[-1].strip() for one in classifiers if one.startswith("License ::")]
    if licence:
        facts["licenses"] = [{"expression": licence}]
    elif classified:
        facts["licenses"] = [{"license": {"name": name}} for name in classified]
    return facts


def needed(found: Distribution, known: dict[str, Distribution]) -> list[str]:
    """Returns the packages here that one asks for, by whatever extra."""
    names = [normal(re.split(r"[^A-Za-z0-9._-]", text.strip(), maxsplit=1)[0]) for text in found.requires or ()]
    return sorted({reference(known[name]) for name in names if name in known})


def bill(packages: Iterable[Distribution]) -> dict[str, Any]:
    """Returns the bill of materials; the same packages give the same bill."""
    known = {normal(found.metadata["Name"]): found for found in packages}
    ordered = [known[name] for name in sorted(known)]
    bom: dict[str, Any] = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {}}
    if PRODUCT in known:
        bom["metadata"]["component"] = component(known[PRODUCT], "application")
    bom["components"] = [component(found) for found in ordered if normal(found.metadata["Name"]) != PRODUCT]
    bom["dependencies"] = [{"ref": reference(found), "dependsOn": needed(found, known)} for found in ordered]
    return bom


if __name__ == "__main__":
    json.dump(bill(distributions()), sys.stdout, indent=1, ensure_ascii=False)
    print()
