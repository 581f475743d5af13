"""Verbs about this installation: selftest, completion."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kymograph._cli.arguments import Choices, at_least, choice, option_words, parse, positional
from kymograph._cli.main import VERBS, verbs_by_group
from kymograph._studies.loading import list_studies

if TYPE_CHECKING:
    from kymograph._selftest.worlds import Row


PARTS = {
    "selftest": {
        "attribute": "selftest_verb",
        "options": "SelftestOptions",
        "about": "measure how often the judge is wrong, and compare the rates with bounds",
        "group": "maintenance",
        "order": 510,
    },
    "completion": {
        "attribute": "completion_verb",
        "options": "CompletionOptions",
        "about": "print a completion script for bash, zsh or fish",
        "usage": "completion SHELL",
        "group": "maintenance",
        "order": 530,
    },
}

Vocabulary = Mapping[tuple[str, ...], Sequence[str]]
"""The options by verb, or by verb and study where the study's settings are options as well."""
SHELLS = Choices("completion for the shell", lambda: COMPLETIONS)
LEAST_WORLDS = 100
_KINDS = {"limit": " (known limit)", "cost": " (cost of not registering)"}


@dataclass(frozen=True)
class SelftestOptions:
    """Measure the judge's error rates in simulated worlds whose truth is known, and compare each with its bound.

    SUPPORTED, REFUTED and EQUIVALENT are shares of all verdicts. The rate is the share of worlds in which the event
    named before it happened. For a sequential design, n is the mean number of seeds. A row fails, and the exit code is
    1, if its rate is beyond its bound by more than chance allows: a judge within all bounds fails at most one selftest
    in a thousand.
    """

    worlds: int = 10_000
    """Worlds of each kind; one in forty where every world is a directory of runs."""
    seed: int = 0
    """Seed of the worlds."""


def selftest_verb(words: list[str]) -> int:
    """Prints a row for every kind of world as soon as it is measured; returns 0 only if all are within their bounds."""
    options = parse(SelftestOptions, words, "kymograph selftest")
    at_least("worlds", options.worlds, LEAST_WORLDS)
    from kymograph._selftest.whole_path import selftest, worst_limit

    print(_line("world", "n", "worlds", ("SUPPORTED", "REFUTED", "EQUIVALENT"), "what is counted", "rate", "bound", ""))
    rows = []
    for row in selftest(options.worlds, options.seed, _with_bar):
        rows.append(row)
        print(_text(row), flush=True)
    failed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} rows are ok: not beyond their bounds by more than chance allows")
    worst = worst_limit(rows)
    most = f"bound {100 * worst.bound.most:.3g} %"
    print(f"worst: {worst.world}, n = {worst.seeds}: {_percent(worst.rate)} false {worst.what} ({most})")
    return 1 if failed else 0


def _text(row: Row) -> str:
    shares = tuple(_percent(share) for share in (row.supported, row.refuted, row.equivalent))
    bound, verdict = f"{row.bound}{_KINDS.get(row.kind, '')}", "ok" if row.passed else "FAILED"
    return _line(row.world, row.seeds, f"{row.worlds:,}", shares, row.what, _percent(row.rate), bound, verdict)


def _line(
    world: str, seeds: str, worlds: str, shares: tuple[str, ...], what: str, rate: str, bound: str, verdict: str
) -> str:
    columns = " ".join(f"{share:>10}" for share in shares)
    line = f"{world:<60} {seeds:>10} {worlds:>7} {columns}  {what:<25} {rate:>7}  {bound:<37} {verdict}"
    return line.rstrip()


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def _with_bar(numbers: Iterable[int], title: str) -> Iterable[int]:
    """Passes the numbers through, with a bar below the rows on a terminal and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(numbers, title, console=console, transient=True, disable=not console.is_terminal)


@dataclass(frozen=True)
class CompletionOptions:
    """Print a script that completes verbs, studies, options and settings; `eval` it when the shell starts."""

    shell: Annotated[str, positional(), choice(SHELLS)]
    """The shell."""


def completion_verb(words: list[str]) -> int:
    """Prints the script."""
    shell = parse(CompletionOptions, words, "kymograph completion").shell
    print(COMPLETIONS[shell](vocabulary(), [study.name for study in list_studies()]), end="")
    return 0


def options_type(verb: str) -> type | None:
    """Returns the dataclass of a verb's options: what its part calls ``options``, or ``Options`` of its module.

    None: a verb of a user's package that parses its own arguments.
    """
    return getattr(VERBS.module(verb), str(VERBS.part(verb).properties.get("options", "Options")), None)


def vocabulary() -> Vocabulary:
    """Returns the options of every verb that declares them."""
    words: dict[tuple[str, ...], list[str]] = {}
    for verb, part in VERBS.parts().items():
        kind = options_type(verb)
        if kind is None:
            continue
        words[verb,] = option_words(kind)
        for study in list_studies() if part.properties.get("settings") else ():
            words[verb, study.name] = [*words[verb,], *option_words(study.config_type)[1:]]
    return words


def verbs_of_studies() -> list[str]:
    """Returns the verbs whose first argument is a study."""
    usages = {name: str(part.properties.get("usage", "")).split() for name, part in VERBS.parts().items()}
    return [name for name, usage in usages.items() if usage[1:2] in (["STUDY"], ["[STUDY]"])]


def bash_completion(words: Vocabulary, studies: Sequence[str]) -> str:
    """Returns a script for bash, and for zsh after ``bashcompinit``."""
    cases = "\n".join(
        f"    {shlex.quote(' '.join(key))}) words={shlex.quote(' '.join(options))} ;;" for key, options in words.items()
    )
    verbs = " ".join(dict.fromkeys(key[0] for key in words))
    return f"""_kymograph() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" first="${{COMP_WORDS[2]}}" words="" key
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {shlex.quote(verbs + " --help --version")} -- "$current"))
    return
  fi
  for key in "$verb" "$verb $first"; do
    case "$key" in
{cases}
    esac
  done
  if [ "${{current:0:1}}" = - ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "$verb $COMP_CWORD" in
    {" | ".join(shlex.quote(f"{verb} 2") for verb in verbs_of_studies())})
      COMPREPLY=($(compgen -W {shlex.quote(" ".join(studies))} -- "$current")) ;;
  esac
  COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _kymograph kymograph
"""


def zsh_completion(words: Vocabulary, studies: Sequence[str]) -> str:
    """Returns the script for bash, after the lines that let zsh read it."""
    return f"autoload -U +X compinit bashcompinit\ncompinit\nbashcompinit\n{bash_completion(words, studies)}"


def fish_completion(words: Vocabulary, studies: Sequence[str]) -> str:
    """Returns a script for fish, with the group of every verb and a line about it."""
    lines = [
        f"complete -c kymograph -n __fish_use_subcommand -f -a {part.name} -d {shlex.quote(f'{group}: {part.about}')}"
        for group, parts in verbs_by_group().items()
        for part in parts
    ]
    lines += [
        f"complete -c kymograph -n '__fish_seen_subcommand_from {verb}; and test (count (commandline -opc)) -eq 2' "
        f"-a {shlex.quote(' '.join(studies))}"
        for verb in verbs_of_studies()
    ]
    for key, options in words.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in key)
        lines += [f"complete -c kymograph -n '{seen}' -l {option.removeprefix('--')}" for option in options]
    return "\n".join(lines) + "\n"


COMPLETIONS: dict[str, Callable[[Vocabulary, Sequence[str]], str]] = {
    "bash": bash_completion,
    "zsh": zsh_completion,
    "fish": fish_completion,
}
