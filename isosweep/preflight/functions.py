"""Functions and fields of TRL that a plan names: looked for before it is shown."""

from collections.abc import Callable, Sequence
from functools import partial

from isosweep.config.evaluation_sets import of_set, on_sets
from isosweep.config.mixture import of_part
from isosweep.config.recipe import own_loss
from isosweep.config.task import TaskConfig
from isosweep.config.trl import require_known
from isosweep.difficulty.variants import ChosenVariant
from isosweep.errors import SettingError
from isosweep.tasks.custom import own_function

# A task, and how its errors are those of the settings that it comes from.
_Named = tuple[TaskConfig, Callable[[SettingError], SettingError]]


def require_functions(variants: Sequence[ChosenVariant]) -> None:
    """Raise SettingError where the function of a task, of a mixture's part or of a set is missing,
    that of a loss, as far as it can be told without executing it, or a field of `recipe.trl`."""
    for variant in variants:
        config = variant.config
        require_known(config.recipe.trl)
        if (loss := own_loss(config.recipe.loss_type)) is not None:
            loss.require()
        named: list[_Named] = [(config.task, lambda error: error)]
        named += [(part, partial(of_part, name)) for name, part in config.task.parts.items()]
        named += [(on.task, partial(of_set, name)) for name, on in on_sets(config).items()]
        for task, own in named:
            try:
                if task.custom is not None:
                    own_function(task.custom).require()
            except SettingError as error:
                raise own(error) from None
