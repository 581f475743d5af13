"""The kinds of panel that a study can ask for: one module each, found by its name.

A module declares itself with ``PART = {"about": ..., "order": ...}`` (charts appear in that order) and defines
``draw(request: ChartRequest) -> Chart | None``; None if there is nothing to draw. A study names the kinds it wants in
``SeriesDisplay.forms``; anything else that a kind needs is in ``SeriesDisplay.facts``.

A kind with ``"scope": "study"`` in its ``PART`` compares the settings of a study. No study names it: it is drawn once
per study, from all its current runs, with the study's headline numbers as ``facts["headlines"]``.
"""
