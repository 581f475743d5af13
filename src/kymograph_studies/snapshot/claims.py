"""What the snapshot scripts say about stream and gradient under DFA, as claims.

The script compares the gradient itself. A gradient is also small if a network makes no errors, so the repaired claims
compare the gradient at block 2 per unit of output error, and are decided only where BP still makes errors. The script's
DFA differs from BP in more than the rule, namely in normalised credit and clipped blocks; the repaired claims on growth
use the rule alone, those on the gradient keep the script's DFA.

Margins. "Grows" and "collapses" mean an order of magnitude. "Bounded" means less than a factor of 50 over training. The
factor is borrowed from the evaluation that these scripts belong to (arXiv:2606.21126), which calls a network's scale
unstable if the stream grows as much from one block to the next; it has no bound over training. "In step" means that the
gradient falls with the stream's size to a power within a quarter of -1.

*Seen before.* That BP's stream grows by about 11 on CIFAR-10 was known when the factor of 50 replaced an
earlier margin of 10; by the script's own word, "bounded", 10 was not what it asked. So "DFA grows the stream, BP does
not" compares the two, and does not say that BP leaves the stream as it was.

*Nearly an identity.* Terminal LayerNorm is homogeneous of degree 0, so the gradient before it falls as 1 / ||h_L||
under any rule, as long as the error stays the same. "The gradient falls in step with growth" checks this and says
nothing about DFA: on CIFAR-10 the power is -1.01 under BP and -0.85 under DFA, and +0.02 under DFA without the
LayerNorm.
"""

from __future__ import annotations

from kymograph import Check, Claim, Measure, Side

HEADLINE = "script 001, docstring: ||h_l|| grows monotonically over epochs under DFA and stays bounded under BP"
CORRESPONDS = "script 001, docstring: the BP gradient collapses correspondingly"
COLLAPSE = "script 004, ResMLP figure, upper right panel: with terminal LayerNorm the gradient collapses under DFA"
STILL_GROWS = "script 004, ResMLP figure, title and lower left panel: without terminal LayerNorm DFA still grows"
NO_COLLAPSE = "script 004, ResMLP figure, title and lower right panel: without it the gradient does not collapse"
VIT_GROWS = "script 004, ViT figure, left panel: ViT-Mini's stream grows under DFA"
VIT_COLLAPSE = "script 004, ViT figure, right panel: ViT-Mini's gradient collapses under DFA"
TARGETS = "script 001, line 229 (--random_targets), implied, never stated: meaningless labels grow the stream as well"
NO_SKIP = "script 001, line 225 (--no_residual_add), implied, never stated: the skip is not the cause"

ORDER = 10.0
UNSTABLE = 50.0
H_LAST = Measure("final_h_L")
GRADIENT, PER_ERROR = Measure("final_g_2"), Measure("final_g_2_per_error")
SYMBOLS = {GRADIENT: "||g_2||", PER_ERROR: "||g_2|| / ||e||"}
GROWTH = Measure("stream_norm", "growth", "last")


def claims() -> list[Claim]:
    """Returns the scripts' eleven findings, then four in the repaired set-up."""
    sgd = {"lr": 0.03}  # at the arms' own rate of 0.1 the rule alone diverges on digits; on CIFAR-10 also at 0.03
    return [
        _grows("script", "DFA grows the stream, BP does not", HEADLINE, "resmlp/dfa", "resmlp/bp"),
        Claim(
            "growth is monotone over epochs", "snapshot",
            "under DFA ||h_L|| rises from every measurement to the next: the smallest ratio of neighbours exceeds 1",
            Side("resmlp/dfa", Measure("stream_norm", "least ratio", "last")), 1.0, "greater", 1.0,
            "log ratio", checks=(_finite("resmlp/dfa"),), setup="script", origin=HEADLINE,
        ),
        Claim(
            "BP keeps the stream bounded", "snapshot",
            "||h_L|| under BP does not end 50 times or more above its start",
            Side("resmlp/bp", GROWTH), 1.0, "not greater", UNSTABLE, "log ratio",
            setup="script", origin=HEADLINE,
        ),
        Claim(
            "the gradient falls in step with growth", "snapshot",
            "through training under DFA ||g_2|| falls as ||h_L|| to a power within 0.25 of -1",
            Side("resmlp/dfa", Measure("gradient_elasticity")), -1.0, "equal", 0.25,
            checks=(Check("the stream grew by more than 10", Side("resmlp/dfa", GROWTH), least=ORDER),),
            setup="script", origin=CORRESPONDS,
        ),
        _collapses("script", "the gradient collapses under DFA with terminal LayerNorm", COLLAPSE, "resmlp", GRADIENT),
        _stays("script", "the gradient does not collapse without terminal LayerNorm", GRADIENT),
        _grows("script", "without terminal LayerNorm DFA still grows the stream", STILL_GROWS, "resmlp/dfa/no_out_ln",
               "resmlp/bp/no_out_ln"),
        _still_grows("resmlp/dfa/random_targets", "random targets still grow the stream", TARGETS),
        _still_grows("resmlp/dfa/no_skip", "the stream still grows without the skip", NO_SKIP),
        _grows("script", "ViT-Mini: DFA grows the stream, BP does not", VIT_GROWS, "vit/dfa", "vit/bp"),
        _collapses("script", "ViT-Mini: the gradient collapses under DFA", VIT_COLLAPSE, "vit", GRADIENT),
        _grows("repaired", "the rule alone grows the stream", HEADLINE, "resmlp/dfa/bare", "resmlp/bp"),
        Claim(
            "the rule alone grows the stream under SGD", "snapshot",
            "with SGD at a rate of 0.03 in both arms, credit as it is and no clipping, ||h_L|| ends more than 10 times "
            "larger under DFA than under BP",
            Side("resmlp/dfa/bare/sgd", H_LAST, sgd), Side("resmlp/bp/sgd", H_LAST, sgd), "greater",
            ORDER, "log ratio", setup="repaired", origin=HEADLINE,
        ),
        _collapses("repaired", "per unit of error the gradient collapses with terminal LayerNorm", COLLAPSE, "resmlp",
                   PER_ERROR),
        _stays("repaired", "per unit of error it does not collapse without terminal LayerNorm", PER_ERROR),
    ]  # fmt: skip


def _grows(setup: str, name: str, origin: str, arm: str, against: str) -> Claim:
    return Claim(
        name, "snapshot", f"||h_L|| ends more than 10 times larger in {arm} than in {against}",
        Side(arm, H_LAST), Side(against, H_LAST), "greater", ORDER, "log ratio",
        checks=(_finite(arm),), setup=setup, origin=origin,
    )  # fmt: skip


def _still_grows(arm: str, name: str, origin: str) -> Claim:
    return Claim(
        name, "snapshot", "||h_L|| ends more than 10 times above its start",
        Side(arm, GROWTH), 1.0, "greater", ORDER, "log ratio", checks=(_finite(arm),),
        setup="script", origin=origin,
    )  # fmt: skip


def _collapses(setup: str, name: str, origin: str, network: str, gradient: Measure) -> Claim:
    return Claim(
        name, "snapshot", f"{SYMBOLS[gradient]} ends more than 10 times smaller under DFA than under BP",
        Side(f"{network}/dfa", gradient), Side(f"{network}/bp", gradient), "less", ORDER, "log ratio",
        checks=(_makes_errors(f"{network}/bp"),), setup=setup, origin=origin,
    )  # fmt: skip


def _stays(setup: str, name: str, gradient: Measure) -> Claim:
    return Claim(
        name, "snapshot",
        f"without terminal LayerNorm {SYMBOLS[gradient]} under DFA is not 10 times smaller than under BP",
        Side("resmlp/dfa/no_out_ln", gradient), Side("resmlp/bp/no_out_ln", gradient), "not less",
        ORDER, "log ratio", checks=(_makes_errors("resmlp/bp/no_out_ln"),), setup=setup, origin=NO_COLLAPSE,
    )  # fmt: skip


def _makes_errors(arm: str) -> Check:
    """A network without errors has no gradient, whatever its stream does."""
    return Check("BP still makes errors", Side(arm, Measure("final_error_norm")), least=0.05)


def _finite(arm: str) -> Check:
    return Check("every measured norm is finite", Side(arm, Measure("finite")), least=1.0)
