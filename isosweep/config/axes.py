"""`grid.axes`: every combination of further settings, each with a config of its own."""

import itertools
from dataclasses import asdict, dataclass
from typing import Any

from omegaconf import OmegaConf

from isosweep.config.choices import closest, one_of
from isosweep.config.data_files import find_data
from isosweep.config.hydra import config_directory, read_model
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.errors import SettingError

# Groups whose settings may join the grid.
_AXIS_GROUPS = ("model", "task", "recipe")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One combination of the values of `grid.axes`, and the config that has them."""

    axes: dict[str, Any]
    config: SweepConfig


def combinations(config: SweepConfig) -> tuple[Variant, ...]:
    """What `variants` gives, before problems are chosen by difficulty.

    Raises SettingError for an axis that is no setting, or a value that breaks its rule.
    """
    axes = config.grid.axes
    if not axes:
        return (Variant(axes={}, config=config),)
    variants = []
    choices = [value if isinstance(value, list) else [value] for value in axes.values()]
    for setting, values in zip(axes, choices, strict=True):
        if not values:
            rule, nearest = "lists no value", "grid.axes={recipe.num_iterations:[1,2]}"
            raise SettingError(f"grid.axes.{setting}", "[]", rule, nearest)
        once = [value for place, value in enumerate(values) if value not in values[:place]]
        if len(once) < len(values):
            nearest = f"grid.axes.{setting}={once}"
            raise SettingError(f"grid.axes.{setting}", values, "lists a value twice", nearest)
    for combination in itertools.product(*choices):
        chosen = dict(zip(axes, combination, strict=True))
        plain = asdict(config)
        # The whole model first: a setting of the model then changes the chosen one.
        for setting in sorted(chosen):
            _set(plain, setting, chosen[setting])
        if "model.path" in chosen:
            read_model(plain["model"])
        if "task.math.path" in chosen:
            find_data(plain["task"])
        variants.append(Variant(axes=chosen, config=sweep_config(plain)))
    return tuple(variants)


def _set(plain: dict[str, Any], setting: str, value: Any) -> None:
    group, _, name = setting.partition(".")
    if setting == "model":
        plain["model"] = _packaged_model(str(value))
        return
    if group not in _AXIS_GROUPS or not name:
        rule = f"an axis is `model` or a setting of {', '.join(_AXIS_GROUPS)}"
        raise SettingError("grid.axes", setting, rule, "grid.axes={recipe.num_iterations:[1,2]}")
    place = plain[group]
    *parents, last = name.split(".")
    for parent in parents:
        place = place.get(parent) or {}
    if last not in place:
        nearest = f"{group}.{closest(last, tuple(place) or tuple(plain[group]))}"
        raise SettingError("grid.axes", setting, "no such setting", nearest)
    place[last] = value


def _packaged_model(name: str) -> dict[str, Any]:
    directory = config_directory() / "model"
    known = tuple(sorted(p.stem for p in directory.glob("*.yaml") if p.stem not in _NOT_MODELS))
    one_of("grid.axes.model", name, known)
    document: Any = OmegaConf.to_container(OmegaConf.load(directory / f"{name}.yaml"))
    model: dict[str, Any] = document.get("model", document)
    return model


# In conf/model: what language models share, and the one whose numbers come from its path.
_NOT_MODELS = ("_llm", "local")
