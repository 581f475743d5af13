"""``kymograph power``: the power of claims by the number of seeds, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kymograph.cli.arguments import at_least, parse, positional, shown
from kymograph.errors import UsageError
from kymograph.wording import folded, line_width

if TYPE_CHECKING:
    from kymograph.lab.power import PowerTable

PART = {
    "about": "the power of claims by the number of seeds, before anything is run",
    "usage": "power CLAIMS",
    "order": 75,
}


@dataclass(frozen=True)
class Options:
    """Compute the power of claims for several numbers of seeds, with both tests, corrected for the family."""

    claims: Annotated[str, positional(), shown("CLAIMS")]
    """A TOML or Python file of claims, or a study: its name or module:Name."""
    effect: Annotated[tuple[float, ...], shown("SIZE ...", default="0.5 0.8 1 1.5 2 sd; with --sd, by the margin")] = ()
    """True effects, in standard deviations beyond the margin; with --sd, in the measure's units or as a ratio."""
    sd: Annotated[float | None, shown("SD", default="effects are in standard deviations")] = None
    """Standard deviation of the paired differences, or of the log ratios."""
    family: Annotated[int | None, shown("N", default="the claims named, and the others of their study")] = None
    """Number of claims that share the level."""
    n: Annotated[tuple[int, ...], shown("N ...")] = (6, 8, 10, 15, 20, 30)
    """Numbers of seeds."""
    looks: Annotated[tuple[int, ...], shown("N ...", default="none")] = ()
    """The power of a sequential design with these looks, e.g. 10 15 20, next to one look at the last."""


def main(words: list[str]) -> int:
    """Prints tables of power in percent."""
    options = parse(Options, words, "kymograph power")
    if options.family is not None:
        at_least("family", options.family, 1)
    from kymograph.claims.design import Design
    from kymograph.lab.named_claims import named_claims
    from kymograph.lab.power import STANDARD_EFFECTS, monte_carlo_error, power_tables, price_of_looks

    claims, _ = named_claims(options.claims)
    width = line_width()
    if options.looks:
        if options.sd is not None:
            raise UsageError("--looks compares designs at effects in standard deviations; drop --sd")
        for line in price_of_looks(
            Design(options.looks), claims, options.effect or STANDARD_EFFECTS, options.family
        ).splitlines():
            print(folded(line, width, further="  "))
        return 0
    family: str = ""
    listed: tuple[str, ...] = ()
    for table in power_tables(claims, options.effect, options.sd, options.family, options.n):
        if (table.family, table.claims) != (family, listed):  # several tables may be about the same claims
            if table.family != family:
                print(folded(table.family, width))
            for claim in table.claims:
                print(folded(claim, width, "  - ", "    "))
            print()
            family, listed = table.family, table.claims
        print(folded(table.question, width, "  "))
        _print_rows(table)
        print()
    print(
        folded(
            f"To ±{100 * monte_carlo_error():.1f} (Monte Carlo, fixed seed): both tests on normal differences, at the "
            "level over the size of the family. Claims that are decided along with others have more.",
            width,
        )
    )
    return 0


def _print_rows(table: PowerTable) -> None:
    """Prints a row per number of seeds."""
    full = [cells for _, cells in table.rows if len(cells) == len(table.columns)]
    width = 2 + max(6, *(len(cell) for cells in (table.columns, *full) for cell in cells))
    print(f"{'n':>6}" + "".join(f"{column:>{width}}" for column in table.columns))
    for n, cells in table.rows:
        row = "".join(f"{cell:>{width}}" for cell in cells) if cells in full else f"  {cells[0]}"
        print(f"{n:>6}{row}")
