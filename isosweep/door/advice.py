"""Published advice on the best n at a budget, in Python."""

from typing import TYPE_CHECKING

from isosweep.config.hydra import config_of
from isosweep.config.overrides import Overrides, as_typed
from isosweep.errors import SettingError

if TYPE_CHECKING:
    from isosweep.analysis.advice.advise import AdviceDocument

_MODE = "mode=advise"


def advise(overrides: Overrides = (), /, **settings: object) -> "AdviceDocument":
    """The n that published results choose at each budget: every source with its answer, where they
    disagree, and the cheapest sweep that would decide.

    `overrides` and `settings`: as in `make_plan`. Raises SettingError for a setting that breaks a
    rule, for `grid.axes`, and for device-hours of hardware without a name.

    >>> (at,) = isosweep.advise(budget=1e20, model="qwen-7b").advice
    >>> at.disagreement.smallest.n < at.disagreement.largest.n
    True
    """
    from isosweep.analysis.advice.advise import advise

    typed = (*as_typed(overrides), *as_typed(settings))
    config = config_of([_MODE, *typed])
    if config.mode != "advise":
        rule = "advise gives advice; what else is done is the command line's"
        raise SettingError("mode", config.mode, rule, _MODE)
    return advise(config, typed)
