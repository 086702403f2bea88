"""`mode=recommend`: how to split each budget, from what one sweep has measured."""

import sys
from dataclasses import asdict, replace

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject, write_json
from isosweep.modes.directory import stored_sweep
from isosweep.modes.terminal import printable, say, show_json
from isosweep.words.recommend import recommendation


def recommend_split(config: SweepConfig, console: Console) -> int:
    """Recommend n, B, T for every budget, per variant; `recommendation.json` keeps it.

    Without a budget in the command, for those of the sweep.

    Raises SettingError for several sweeps, and as `recommend` does.
    """
    from isosweep.analysis.load import load_view
    from isosweep.analysis.recommend import recommend
    from isosweep.analysis.statistics.findings import find
    from isosweep.files import to_json

    sweep = stored_sweep(config)
    plan, asked = sweep.plan, config.analysis
    budgets = config.budgets if "budget" in config.given else plan.budgets
    spoken = config.format == "text"
    variants: list[JsonObject] = []
    for axes in plan.axes:
        view = replace(sweep.paths, view=asked.view(axes))
        if view.view and spoken:
            say(console, f"{view.view}:")
        data = load_view(view, asked, axes)
        findings = find(data, asked)
        splits = [
            recommend(data, findings, budget, extrapolate=asked.extrapolate) for budget in budgets
        ]
        document = {
            "version": 3,
            "plan_id": plan.plan_id,
            "confidence": asked.confidence,
            "recommendations": to_json([asdict(split) for split in splits]),
        }
        variants.append({"axes": axes, **document})
        kept = f"recommendation: {view.recommendation}"
        try:
            view.analysis.mkdir(parents=True, exist_ok=True)
            write_json(view.recommendation, document)
        except OSError as error:
            # Of a sweep that others let this user read.
            kept = ""
            line = f"the recommendation is not kept: {view.analysis} cannot be written"
            sys.stderr.write(f"{printable(line)} ({error.strerror})\n")
        if spoken:
            for split in splits:
                of = plan.budget_unit, data.evaluation_set, asked.confidence, plan.pricing
                say(console, *recommendation(split, *of))
            say(console, *filter(None, [kept]))
    if not spoken:
        whole = {"version": 1, "sweep_dir": str(sweep.paths.root), "budget_unit": plan.budget_unit}
        show_json(console, {**whole, "variants": variants})
    return 0
