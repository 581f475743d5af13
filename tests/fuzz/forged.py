"""Records that are hostile and carry the right checksums: somebody who knows the format wrote them."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from kymograph._runs.spec import canonical_json
from tests.fuzz.mutations import dump, replace_value

SIGNED = ("config.json", "summary.json", "arrays.safetensors", "checkpoint.safetensors", "traceback.txt")
DIGEST = 64
"""Characters of the checksum at the end of a state."""


def forge_record(run: Path, name: str, draw: random.Random) -> Path:
    """Replaces a value in one file of a run's directory and signs the run anew; returns its directory.

    A configuration gets the id of what it says now, and the directory that name.
    """
    path = run / name
    if name == "config.json":
        config = replace_value(json.loads(path.read_bytes()), draw)
        if isinstance(config, dict) and draw.random() < 0.8:
            config["id"] = _id(config) or config.get("id")
        path.write_bytes(dump(config))
        named = config.get("id") if isinstance(config, dict) else None
        if isinstance(named, str) and named.isalnum() and len(named) < 100:
            run = run.rename(run.with_name(run.name[: run.name.rindex("-") + 1] + named))
    elif name.endswith(".safetensors"):
        path.write_bytes(forge_tensors(path.read_bytes(), draw))
    elif name == "traceback.txt":
        path.write_bytes(draw.randbytes(50) + b"\x1b[31m")
    else:
        path.write_bytes(dump(replace_value(json.loads(path.read_bytes()), draw)))
    if name != "status.json":
        sign(run)
    return run


def sign(run: Path) -> None:
    """Writes sizes and checksums of a run's files into its status."""
    status = json.loads((run / "status.json").read_bytes())
    for name in SIGNED:
        if (run / name).is_file():
            content = (run / name).read_bytes()
            status["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (run / "status.json").write_text(json.dumps(status))


def forge_tensors(content: bytes, draw: random.Random) -> bytes:
    """Replaces a value in the header of a safetensors file, or in the facts inside it; signs what was signed."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    facts = json.loads(header["__metadata__"]["kymograph"])
    if draw.random() < 0.5:
        facts = replace_value(facts, draw)
        header["__metadata__"]["kymograph"] = dump(facts).decode("utf-8", "surrogatepass")
    else:
        header = replace_value(header, draw)
    text = dump(header)
    forged = len(text).to_bytes(8, "little") + text + content[start:]
    if hashlib.sha256(content[:-DIGEST]).hexdigest().encode() == content[-DIGEST:]:  # the state of an unfinished run
        return forged[:-DIGEST] + hashlib.sha256(forged[:-DIGEST]).hexdigest().encode()
    return forged


def forge_log(content: bytes, draw: random.Random) -> bytes:
    """Replaces a value in one entry of a segment of the log and hashes it, but not what follows it, anew."""
    lines = content.splitlines()
    index = draw.randrange(len(lines))
    entry = replace_value(json.loads(lines[index]), draw)
    if isinstance(entry, dict):
        covered = {key: value for key, value in entry.items() if key != "hash"}
        digest = _digest(covered)
        entry = {**covered, "hash": digest} if digest else entry
    lines[index] = dump(entry)
    return b"\n".join(lines) + b"\n"


def _id(config: dict[str, Any]) -> str | None:
    identity = {key: value for key, value in config.items() if key not in ("schema", "id", "provenance")}
    digest = _digest(identity)
    return digest[:16] if digest else None


def _digest(value: Any) -> str | None:
    try:
        return hashlib.sha256(canonical_json(value).encode()).hexdigest()
    except (ValueError, TypeError, RecursionError):
        return None
