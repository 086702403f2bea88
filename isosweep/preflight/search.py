"""The classes that a search is asked to use are there, before anything is stored or launched."""

import importlib.util

from isosweep.plan.study import Study


def require_classes(study: Study) -> None:
    """Raise SettingError where search.sampler or search.pruner cannot be used; where Optuna is not
    installed, on a machine that only plans, nothing is known of them."""
    config = study.config.search
    if config.kind == "optuna" and importlib.util.find_spec("optuna") is not None:
        from isosweep.search.by_optuna import require

        require(config, study.plan)
