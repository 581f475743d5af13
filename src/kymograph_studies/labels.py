"""Labels that several studies share: what the set-ups of their claims mean, and the name of an axis."""

from __future__ import annotations

from collections.abc import Mapping

SETUP_MEANINGS: Mapping[str, str] = {
    "script": "Judged on runs set up as in the research script behind the study, with the script's quantities.",
    "repaired": "Judged with quantities, data or arms that repair the script's flaws.",
    "transfer": "The script's claim, judged on data other than the script's.",
    "altered": "The script's claim, judged at settings other than the script's.",
}
STREAM = "depth (point of the stream)"
"""The axis label for the sites of a residual stream, from the embedding to the read-out."""
