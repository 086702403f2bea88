"""`mode=recommend`: how to split each budget, from what one sweep has measured."""

import sys
from dataclasses import asdict, replace
from typing import Final

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject, to_json, write_json
from isosweep.modes.sweeps import stored_sweep
from isosweep.modes.terminal import say, show_json
from isosweep.words.escape import printable
from isosweep.words.recommend import recommendation

# Raised when a field of a document goes or changes its meaning; fields may be added: of what is
# printed, and of recommendation.json.
VERSION: Final = 1
_FILE_VERSION: Final = 4


def recommend_split(config: SweepConfig, console: Console) -> int:
    """Recommend n, B, T for every budget, per variant; `recommendation.json` keeps it.

    Without a budget in the command, for those of the sweep. Raises SettingError as `recommend`.
    """
    from isosweep.analysis.load import load_sweep
    from isosweep.analysis.recommend import recommend
    from isosweep.analysis.statistics.findings import find

    sweep, asked = stored_sweep(config), config.analysis
    plan = sweep.plan
    budgets = config.budgets if "budget" in config.given else plan.budgets
    variants: list[JsonObject] = []
    lines: list[str] = []
    for axes in plan.axes:
        view = replace(sweep.paths, view=asked.view(axes))
        if view.view:
            lines.append(f"{view.view}:")
        data = load_sweep(view, asked, axes)
        findings, beyond = find(data, asked), asked.extrapolate
        splits = [recommend(data, findings, budget, extrapolate=beyond) for budget in budgets]
        document = {
            "version": _FILE_VERSION,
            "plan_id": plan.plan_id,
            "confidence": asked.confidence,
            "recommendations": to_json([asdict(split) for split in splits]),
        }
        variants.append({"axes": axes, **document})
        for split in splits:
            of = plan.budget_unit, data.evaluation_set, asked.confidence, plan.pricing
            lines += recommendation(split, *of)
        try:
            view.analysis.mkdir(parents=True, exist_ok=True)
            write_json(view.recommendation, document)
            lines.append(f"recommendation: {view.recommendation}")
        except OSError as error:
            # Of a sweep that others let this user read.
            line = f"the recommendation is not kept: {view.analysis} cannot be written"
            sys.stderr.write(f"{printable(line)} ({error.strerror})\n")
    if config.format == "json":
        whole = {"version": VERSION, "sweep_dir": str(sweep.paths.root)}
        show_json(console, {**whole, "budget_unit": plan.budget_unit, "variants": variants})
    else:
        say(console, *lines)
    return 0
