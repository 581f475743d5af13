#!/usr/bin/env bash
# Writes requirements.lock: the pinned set of constraints.txt with the SHA-256 of every file that may be installed.
# Needs uv (`pip install uv`), and asks the package index for hashes; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
{
    echo "# Written by \`make lock\` from constraints.txt. Install with: pip install --require-hashes --no-deps -r requirements.lock"
    echo "# Without torch: its CPU and CUDA builds share a version and differ in their files (docs/security.md)."
    grep -v '^torch==' constraints.txt |
        "${UV:-uv}" pip compile - --no-deps --generate-hashes --universal --python-version 3.11.5 \
            --no-header --no-annotate --quiet
} > requirements.lock.new
mv requirements.lock.new requirements.lock
