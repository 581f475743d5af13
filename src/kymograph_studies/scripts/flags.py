"""Flags of the research scripts, typed by habit: the equivalent of each, as one sentence.

Two of the scripts have flags; the others have constants and arguments, which a user may take for options. All of them
are below, except those that are options here under the same name. ``docs/from-the-scripts.md`` has the whole list.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ScriptFlag:
    """A script's flag, and the command and option that replace it here."""

    flag: str
    """As the script spells it."""
    command: str
    """Without the word ``kymograph``, e.g. ``run snapshot``."""
    what: str
    """What it is here: an arm, a setting, an option."""
    instead: str
    """What to write; ``{}`` is replaced by the flag's value."""

    def answer(self, command: str, options: Collection[str], value: str) -> str | None:
        """Returns the sentence to print if the flag is given to ``command``, which has the options ``options``."""
        instead = self.instead.format(value)
        option = instead.split()[0]
        if command == self.command or (option in options and option != "--arms"):
            return f"{self.flag} is {self.what} here: {instead}"
        if command not in SCRIPTED:
            return None
        call = instead if instead.startswith("kymograph ") else f"kymograph {self.command} {instead}"
        return f"{self.flag} is {self.what} of `kymograph {self.command}` here: {call}"


SCRIPT_FLAGS = (
    # Script 001.
    ScriptFlag("--output_dir", "run snapshot", "the option --dir", "--dir {}"),
    ScriptFlag("--seed", "run snapshot", "the option --seeds", "--seeds {}"),
    ScriptFlag("--d_hidden", "run snapshot", "the setting width", "--width {}"),
    ScriptFlag("--skip_bp", "run snapshot", "the arm resmlp/dfa on its own", "--arms resmlp/dfa"),
    ScriptFlag(
        "--no_residual_add",
        "run snapshot",
        "the pair of arms resmlp/bp/no_skip and resmlp/dfa/no_skip",
        "--arms resmlp/bp/no_skip resmlp/dfa/no_skip",
    ),
    ScriptFlag(
        "--random_targets", "run snapshot", "the arm resmlp/dfa/random_targets", "--arms resmlp/dfa/random_targets"
    ),
    # Script 002.
    ScriptFlag("--ckpt", "calibrate", "the argument CHECKPOINT", "kymograph calibrate {}"),
    ScriptFlag("--n_fresh", "run calibration", "the number of draws", "--draws {}"),
    # Constants and arguments of script 000.
    ScriptFlag(
        "--clip_grad",
        "run clipping",
        "the pair of arms extreme/clip and moderate/clip",
        "--arms extreme/clip moderate/clip",
    ),
    ScriptFlag("--rare_ratio", "run clipping", "the number of rare samples n_rare", "--n-rare N"),
    ScriptFlag("--n_epochs", "run clipping", "the setting epochs", "--epochs {}"),
    ScriptFlag("--track_every", "run clipping", "the setting probe_every", "--probe-every {}"),
    ScriptFlag("--vocab_size", "run clipping", "the setting vocab", "--vocab {}"),
    ScriptFlag("--embedding_dim", "run clipping", "the setting dim", "--dim {}"),
    # Constants of script 003.
    ScriptFlag("--num_layers", "run depth", "the setting layers", "--layers {}"),
    ScriptFlag("--hidden_dim", "run depth", "the setting width", "--width {}"),
    ScriptFlag("--num_samples", "run depth", "the setting n_samples", "--n-samples {}"),
    ScriptFlag("--training_steps", "run depth", "the setting steps", "--steps {}"),
    ScriptFlag("--learning_rate", "run depth", "the setting lr", "--lr {}"),
)
SCRIPTED = {script_flag.command for script_flag in SCRIPT_FLAGS}
"""The commands that replace a script, where the flags of any script are recognised.

Elsewhere, ``--seed`` for example is an ordinary mistake."""
OUTPUT = ScriptFlag("--output_dir", "figure", "the option --output", "--output {}")
"""The same flag for verbs that write something other than runs."""
OTHER_MEANING = {("run snapshot", "--random_targets")}
"""Flags that are options here under the same name but do something else.

The script's BP keeps the true labels; the setting random_targets, ``--random-targets``, applies to every arm that runs.
"""


def answer(words: Sequence[str], program: str, options: Collection[str]) -> str | None:
    """Returns the equivalents of the scripts' flags among ``words``, in words; None if there are none.

    Args:
        words: the command line after the command.
        program: the command, e.g. ``kymograph run snapshot``.
        options: the options that it has, e.g. ``--log-every``.
    """
    command = program.removeprefix("kymograph ")
    by_flag = {script_flag.flag: script_flag for script_flag in SCRIPT_FLAGS}
    answers: dict[str, str | None] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        typed, _, value = word.partition("=")
        script_flag = by_flag.get("--" + typed.removeprefix("--").replace("-", "_")) if typed.startswith("--") else None
        is_option = typed.replace("_", "-") in options and (command, typed) not in OTHER_MEANING
        if script_flag is not None and not is_option:
            value = value or ("..." if following.startswith("--") else following)
            if script_flag.flag == "--output_dir" and "--output" in options:  # where --dir is what is read
                script_flag = OUTPUT
            answers[script_flag.flag] = script_flag.answer(command, options, shlex.quote(value))
    return "; ".join(filter(None, answers.values())) or None
