"""What is published about the best n at a budget, in Python."""

from typing import TYPE_CHECKING

from isosweep.config.hydra import config_of
from isosweep.config.overrides import Overrides, as_typed
from isosweep.errors import SettingError

if TYPE_CHECKING:
    from isosweep.analysis.advice.advise import AdviceDocument

_MODE = "mode=advise"


def advise(overrides: Overrides = (), /, **settings: object) -> "AdviceDocument":
    """What published laws and points choose for n at each budget, before any run: every source with
    its own answer, where they disagree, and the cheapest sweep that would decide.

    Overrides as of `make_plan`. Raises SettingError for settings that break a rule, `grid.axes`,
    and device-hours of hardware that is not named.

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
