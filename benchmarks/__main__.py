"""``python -m benchmarks``: times this package and exits with 1 if a row is over its limit; ``make bench`` runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import compare, engines, modes, ranks, rules, scale, studies, watching
from kymograph._errors import KymographError, did_you_mean
from kymograph._io.writing import write_atomically
from kymograph._runs.provenance import hardware, versions


def main() -> int:
    """Runs the benchmarks that the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="rows, e.g. clipping-32, or all that begin alike, e.g. watching (default: every row); or one of: "
        "engines, the cost of each engine per sweep and per stack; modes, whether a probe measures the same in every "
        "mode of training; ranks, what watching costs on two ranks; rules, the cost of a step of each learning rule; "
        "scale, what commands cost in a directory of ten thousand runs",
    )
    parser.add_argument("--repeats", type=int, default=3, help="how often each side is timed (default: 3)")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables to this file")
    options = parser.parse_args()
    others = {
        "engines": engines.bench_engines,
        "modes": modes.bench_modes,
        "ranks": ranks.bench_ranks,
        "rules": rules.bench_rules,
        "scale": scale.bench_scale,
    }
    try:
        if len(options.names) == 1 and options.names[0] in others:
            return others[options.names[0]]()
        return bench(options.names, options.repeats, options.markdown)
    except KymographError as error:
        parser.error(str(error))


def bench(names: Sequence[str], repeats: int, markdown: str | None = None) -> int:
    """Times the named rows (default: all), prints tables, writes them to ``markdown``; returns 1 if one is too slow."""
    compared, watched = studies.comparisons(), watching.NETWORKS
    chosen = choose(names, [*compared, *watched])
    if repeats < 1:
        raise KymographError(f"repeats must be at least 1, not {repeats}")
    if markdown is not None and not Path(markdown).parent.is_dir():
        raise KymographError(f"there is no directory {Path(markdown).parent}; create it first")
    timings = [compare.time_row(name, compared[name], repeats) for name in chosen if name in compared]
    costs = [cost for name in chosen if name in watched for cost in watching.measure(name)]
    tables = [compare.render(timings)] if timings else []
    tables += [watching.render(costs)] if costs else []
    exceeded = [sentence for row in (*timings, *costs) if (sentence := row.over_limit())]
    if any(timing.products for timing in timings):
        memory = max(map(studies.peak_memory, ("bp", "dfa")))
        sentence = f"Peak memory of an epoch of `snapshot`: {memory:.2f} GB (limit: {studies.MOST_MEMORY} GB)."
        tables.append(sentence)
        exceeded += [sentence] if memory > studies.MOST_MEMORY else []
    text = "\n\n".join([*tables, f"{hardware()['processor']}, torch {versions()['torch']}."])
    print(text)
    if markdown is not None:
        write_atomically(Path(markdown), f"# Speed\n\nPrinted by `make bench`.\n\n{text}\n".encode())
    for sentence in exceeded:
        print(sentence, file=sys.stderr)
    return 1 if exceeded else 0


def choose(names: Sequence[str], rows: Sequence[str]) -> list[str]:
    """Returns the rows that names stand for, each in full or by how it begins; without names, all rows."""
    chosen = []
    for name in names:
        matching = [row for row in rows if row == name or row.startswith(f"{name}-")]
        if not matching:
            raise KymographError(f"there is no row {name!r}{did_you_mean(name, rows)}")
        chosen += matching
    return list(dict.fromkeys(chosen)) or list(rows)


if __name__ == "__main__":
    sys.exit(main())
