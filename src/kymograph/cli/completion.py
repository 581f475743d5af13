"""Completion scripts for shells: verbs, studies, options and settings, as this installation has them."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kymograph.cli.arguments import option_fields
from kymograph.cli.main import VERBS
from kymograph.studies.loading import list_studies

TAKES_STUDY = ("run", "variance", "list")
"""Verbs whose first word is a study; the options of the first two include its settings."""


def option_words(kind: Any) -> list[str]:
    """Returns the options of a dataclass as they are typed; Booleans also have a ``--no-`` form."""
    words = ["--help"]
    for name, hint in option_fields(kind).items():
        option = name.rstrip("_").replace("_", "-")
        words += [f"--{option}", f"--no-{option}"] if hint is bool else [f"--{option}"]
    return words


def vocabulary() -> dict[tuple[str, ...], list[str]]:
    """Returns the options by verb, or by verb and study where the study's settings are options as well."""
    found: dict[tuple[str, ...], list[str]] = {}
    studies = list_studies()
    for name, part in VERBS.parts().items():
        kind = getattr(importlib.import_module(part.module), "Options", None)
        if kind is None:  # a verb of a user's package that parses its own arguments
            continue
        found[name,] = option_words(kind)
        for study in studies if name in TAKES_STUDY[:2] else ():
            found[name, study.name] = [*found[name,], *option_words(study.config_type)[1:]]
    return found


def bash_script(words: Mapping[tuple[str, ...], Sequence[str]], studies: Sequence[str]) -> str:
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
    {" | ".join(shlex.quote(f"{verb} 2") for verb in TAKES_STUDY)})
      COMPREPLY=($(compgen -W {shlex.quote(" ".join(studies))} -- "$current")) ;;
  esac
  COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _kymograph kymograph
"""


def zsh_script(words: Mapping[tuple[str, ...], Sequence[str]], studies: Sequence[str]) -> str:
    """Returns the script for bash, after the lines that let zsh read it."""
    return f"autoload -U +X compinit bashcompinit\ncompinit\nbashcompinit\n{bash_script(words, studies)}"


def fish_script(words: Mapping[tuple[str, ...], Sequence[str]], studies: Sequence[str]) -> str:
    """Returns a script for fish, with a line about every verb."""
    lines = [
        f"complete -c kymograph -n __fish_use_subcommand -f -a {name} -d {shlex.quote(part.about)}"
        for name, part in VERBS.parts().items()
    ]
    lines += [
        f"complete -c kymograph -n '__fish_seen_subcommand_from {verb}; and test (count (commandline -opc)) -eq 2' "
        f"-a {shlex.quote(' '.join(studies))}"
        for verb in TAKES_STUDY
    ]
    for key, options in words.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in key)
        lines += [f"complete -c kymograph -n '{seen}' -l {option.removeprefix('--')}" for option in options]
    return "\n".join(lines) + "\n"


SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
