"""What the words of the page mean, in a sentence each: for hovering, for the keyboard, and as a list."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "SUPPORTED": "The runs show the claimed effect, beyond the claim's margin, after correction for all claims of the "
    "study.",
    "REFUTED": "The runs show the opposite: an effect that goes the other way, or one beyond the margin where none was "
    "claimed.",
    "EQUIVALENT": "The effect is shown to be smaller than the margin in either direction. It need not be zero.",
    "INCONCLUSIVE": "These seeds decide nothing: neither the effect nor its absence is shown. More seeds may.",
    "INVALID": "A validity check failed or runs are missing, so the claim cannot be judged on these runs.",
    "registered": "The claim was registered, with its margin, before the runs existed.",
    "post hoc": "The claim was made after runs existed that it is judged on: it may have been suggested by them.",
    "changed after runs existed": "The claim was registered before the runs, but says something else now.",
    "manipulation check": "True by construction as long as the arms do what they are meant to do; no finding.",
    "margin": "The smallest effect that matters, stated with the claim before the runs.",
    "script": "Judged on runs set up as in the research script behind the study, by the quantities it used.",
    "repaired": "Judged by quantities, data or arms in which the script's flaws are repaired.",
    "transfer": "The script's claim, judged on runs with other data than the script's.",
    "altered": "The script's claim, judged on runs with other settings than the script's.",
    "own": "A claim of the study's author.",
}


def meaning(word: str) -> str:
    """Returns what a word means; nothing if it needs no explanation."""
    return WORDS.get(word, next((text for start, text in WORDS.items() if start in word), ""))
