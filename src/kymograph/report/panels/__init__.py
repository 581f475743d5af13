"""The kinds of panel that a study can ask for: one module each, found by its name.

A module declares itself with ``PART = {"about": ..., "order": ...}`` (charts appear in that order) and defines
``draw(request: ChartRequest) -> Chart | None``; None if there is nothing to draw. A study names the kinds it wants in
``SeriesDisplay.forms``; what one kind needs beyond that it takes from ``SeriesDisplay.facts``.

A kind with ``"scope": "study"`` in its ``PART`` compares the settings of a study. No study names it: it is asked once
per study, with all its current runs, and the study's headline numbers as ``facts["headlines"]``.
"""
