"""What a search is asked to use is there and can do something, before anything is stored."""

import importlib.util

from isosweep.errors import SettingError
from isosweep.plan.study import Study


def require_search(study: Study) -> None:
    """Raise SettingError where search.sampler, search.pruner or search.storage cannot be used, or
    search.max_compute pays for nothing; where Optuna is not installed, on a machine that only
    plans, nothing is known of the first three."""
    _require_compute(study)
    config = study.config.search
    if importlib.util.find_spec("optuna") is None:
        return
    if config.kind == "optuna":
        from isosweep.search.by_optuna import load

        load(config, study.plan)
    if config.storage is not None:
        from isosweep.search.study import require_storage

        require_storage(config.storage)


def _require_compute(study: Study) -> None:
    config, plan = study.config.search, study.plan
    if config.max_compute is None or not config.searches:
        return
    # Variants have equal parts of it, but for samplers, which choose among them.
    parts = len(plan.axes) if config.kind == "frontier" else 1
    least = min(run.milestones[0] for run in plan.runs)
    if config.max_compute < least * parts:
        shared = f", and {parts} variants have equal parts of it" if parts > 1 else ""
        rule = f"the cheapest first step takes {least:g} {plan.budget_unit}{shared}"
        nearest = f"search.max_compute={least * parts:g}"
        raise SettingError("search.max_compute", f"{config.max_compute:g}", rule, nearest)
