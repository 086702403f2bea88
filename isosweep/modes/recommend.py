"""`mode=recommend`: how to split each budget, from what one sweep has measured."""

import sys
from dataclasses import asdict, fields, replace
from typing import Any

from rich.console import Console

from isosweep import words
from isosweep.config.overrides import typed
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject, write_json
from isosweep.modes.directory import StoredSweep, one_sweep
from isosweep.modes.terminal import printable, say, show_json

# What a command says of a recommendation: which sweep, which budgets, how the records are read and
# what is printed. Launcher and tracking have no part in it. All else is the sweep's own.
_OF_THE_COMMAND = (
    *("mode", "from", "sweep_dir", "sweeps_dir", "name", "budget", "analysis", "format"),
    *("launcher", "tracking"),
)
_ABSENT = object()


def recommend_split(config: SweepConfig, console: Console) -> int:
    """Recommend n, B, T for every budget, per variant; `recommendation.json` keeps it.

    Without a budget in the command, for those of the sweep.

    Raises SettingError for several sweeps, for settings that the sweep does not have, and as
    `recommend` does.
    """
    from isosweep.analysis.load import load_view
    from isosweep.analysis.recommend import recommend
    from isosweep.analysis.statistics.findings import find
    from isosweep.files import to_json

    sweep = one_sweep(config, "a recommendation rests on")
    plan, asked = sweep.plan, config.analysis
    budgets = config.budgets if "budget" in config.given else plan.budgets
    _require_settings_of(sweep, config)
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
            for split in document["recommendations"]:
                of = plan.budget_unit, data.evaluation_set, asked.confidence, plan.pricing
                say(console, *words.lines("recommend", "recommendation", split, *of))
            say(console, *filter(None, [kept]))
    if not spoken:
        whole = {"version": 1, "sweep_dir": str(sweep.paths.root), "budget_unit": plan.budget_unit}
        show_json(console, {**whole, "variants": variants})
    return 0


def _require_settings_of(sweep: StoredSweep, config: SweepConfig) -> None:
    """Raise SettingError for a setting that was typed and is not as the sweep has it."""
    for name in config.given:
        if name.split(".")[0] in _OF_THE_COMMAND:
            continue
        asked, own = _value(config, name), _value(sweep.config, name)
        if own is _ABSENT:
            rule = f"has no effect on a recommendation from {sweep.name}, which uses all its runs"
            raise SettingError(name, asked if asked is not _ABSENT else "", rule, "from=SWEEP")
        if asked != own:
            rule = f"{sweep.name} has {name}={typed(own)}, and a recommendation rests on its runs"
            nearest = f"{name}={typed(own)}, or from=SWEEP of another"
            raise SettingError(name, typed(asked), rule, nearest)


def _value(config: SweepConfig, name: str) -> Any:
    """What a dotted setting is, of a group which choice it is; _ABSENT of what is no setting."""
    if name.split(".")[0] not in {item.name for item in fields(SweepConfig)}:
        return _ABSENT
    value: Any = asdict(config)
    for part in name.split("."):
        # Of what was taken away, nothing is left on either side.
        value = value.get(part) if isinstance(value, dict) else None
    return value.get("name", value) if isinstance(value, dict) else value
