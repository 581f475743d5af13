"""What the snapshot scripts say about stream and gradient under DFA, as claims.

The script compares the gradient itself; a gradient is also small because a network is right, so the repaired claims
compare the gradient per unit of output error. DFA came with two more changes than the rule, normalised credit and
clipped blocks; the repaired claims on growth use the rule alone.
"""

from __future__ import annotations

from kymograph.claims.claim import Check, Claim, Measure, Quantity

GROWS = "script 001, headline: DFA blows up the residual stream, BP does not"
MONOTONE = "script 001, note: the growth goes on epoch by epoch"
COLLAPSE = "scripts 001 and 004, lower left panel: with terminal LayerNorm the gradient collapses under DFA"
NO_COLLAPSE = "script 004, lower right panel: without terminal LayerNorm it does not"
TARGETS = "script 001, option random targets: labels without meaning make the stream grow as well"
NO_SKIP = "script 001, option no residual add: the skip is not the cause"


def claims() -> list[Claim]:
    """Returns the script's six findings, then five in the repaired set-up."""
    h_last = Measure("final_h_L")
    gradient, sensitivity = Measure("final_g_2"), Measure("final_sensitivity")
    trained = _finite("resmlp/dfa")
    sgd = {"lr": 0.03}  # at the arms' own rate of 0.1 the rule alone diverges
    return [
        Claim(
            "DFA grows the stream, BP does not", "snapshot", "script",
            "||h_L|| ends more than 10 times larger under DFA than under BP",
            GROWS, Quantity("resmlp/dfa", h_last), Quantity("resmlp/bp", h_last), "greater", 10.0, "log ratio",
            checks=(trained,),
        ),
        Claim(
            "growth is monotone over epochs", "snapshot", "script",
            "||h_L|| under DFA rises from measurement to measurement, all but 5 % of the time",
            MONOTONE, Quantity("resmlp/dfa", Measure("stream_norm", "rises", "last")), 1.0, "not less", 0.05,
            checks=(trained,),
        ),
        Claim(
            "the gradient collapses under DFA with terminal LayerNorm", "snapshot", "script",
            "||g_2|| ends more than 10 times smaller under DFA than under BP",
            COLLAPSE, Quantity("resmlp/dfa", gradient), Quantity("resmlp/bp", gradient), "less", 10.0, "log ratio",
        ),
        Claim(
            "the gradient does not collapse without terminal LayerNorm", "snapshot", "script",
            "without it ||g_2|| under DFA is not 10 times smaller than under BP",
            NO_COLLAPSE, Quantity("resmlp/dfa/no_out_ln", gradient), Quantity("resmlp/bp/no_out_ln", gradient),
            "not less", 10.0, "log ratio",
        ),
        _still_grows("script", "resmlp/dfa/random_targets", "random targets still grow the stream", TARGETS),
        _still_grows("script", "resmlp/dfa/no_skip", "the stream still grows without the skip", NO_SKIP),
        Claim(
            "the rule alone grows the stream", "snapshot", "repaired",
            "with credit as it is and no clipping ||h_L|| ends more than 10 times larger under DFA than under BP",
            GROWS, Quantity("resmlp/dfa/bare", h_last), Quantity("resmlp/bp", h_last), "greater", 10.0, "log ratio",
            checks=(_finite("resmlp/dfa/bare"),),
        ),
        Claim(
            "the rule alone grows the stream under SGD", "snapshot", "repaired",
            "the same with SGD in both arms",
            GROWS, Quantity("resmlp/dfa/bare/sgd", h_last, sgd), Quantity("resmlp/bp/sgd", h_last, sgd),
            "greater", 10.0, "log ratio",
        ),
        Claim(
            "BP does not grow the stream", "snapshot", "repaired",
            "||h_L|| under BP does not end 10 times or more above its start",
            GROWS, Quantity("resmlp/bp", Measure("stream_norm", "growth", "last")), 1.0, "not greater", 10.0,
            "log ratio",
        ),
        Claim(
            "per unit of error the gradient collapses with terminal LayerNorm", "snapshot", "repaired",
            "||g_L|| / ||e|| ends more than 10 times smaller under DFA than under BP",
            COLLAPSE, Quantity("resmlp/dfa", sensitivity), Quantity("resmlp/bp", sensitivity), "less", 10.0,
            "log ratio",
        ),
        Claim(
            "per unit of error it does not collapse without terminal LayerNorm", "snapshot", "repaired",
            "without terminal LayerNorm ||g_L|| / ||e|| under DFA is not 10 times smaller than under BP",
            NO_COLLAPSE, Quantity("resmlp/dfa/no_out_ln", sensitivity), Quantity("resmlp/bp/no_out_ln", sensitivity),
            "not less", 10.0, "log ratio",
        ),
    ]  # fmt: skip


def _still_grows(setup: str, arm: str, name: str, origin: str) -> Claim:
    return Claim(
        name, "snapshot", setup, "||h_L|| ends more than 10 times above its start",
        origin, Quantity(arm, Measure("stream_norm", "growth", "last")), 1.0, "greater", 10.0, "log ratio",
    )  # fmt: skip


def _finite(arm: str) -> Check:
    return Check("every measured norm is finite", Quantity(arm, Measure("finite")), least=1.0)
