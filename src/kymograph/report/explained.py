"""One-sentence explanations of the page's terms, shown as tooltips and as a list."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "SUPPORTED": "The runs show the claimed effect, beyond the claim's margin, after correction for all claims of the "
    "study.",
    "REFUTED": "The runs show the opposite: an effect in the other direction, or one beyond the margin where none was "
    "claimed.",
    "EQUIVALENT": "The effect is shown to be smaller than the margin in either direction. It need not be zero.",
    "INCONCLUSIVE": "These seeds show neither the effect nor its absence. More seeds may decide.",
    "INVALID": "A validity check failed or runs are missing, so the claim cannot be judged on these runs.",
    "registered": "The claim was registered, with its margin, before the runs existed.",
    "post hoc": "The claim was made after runs that it is judged on existed, and may have been suggested by them.",
    "changed after runs existed": "The claim was registered before the runs, but has been changed since.",
    "manipulation check": "True by construction if the arms work as intended; not a finding.",
    "margin": "The smallest effect that matters, stated with the claim before the runs.",
    "script": "Judged on runs set up as in the research script behind the study, with the script's quantities.",
    "repaired": "Judged with quantities, data or arms that repair the script's flaws.",
    "transfer": "The script's claim, judged on data other than the script's.",
    "altered": "The script's claim, judged at settings other than the script's.",
    "own": "A claim of the study's author.",
}


def meaning(word: str) -> str:
    """Returns the explanation of a term; empty if it needs none."""
    return WORDS.get(word, next((text for start, text in WORDS.items() if start in word), ""))
