"""Which settings of a stored sweep are not what they would be without a word about them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from isosweep.config.base import flattened

# What a sweep is called and where it lies: no settings of what was asked.
_PLACES = (
    *("sweep", "sweeps_dir", "runs", "mode", "given", "loss_sources"),
    *("confirm", "dry_run", "format", "trust", "model.directory", "model.converted"),
)


def changed_settings(settings: Mapping[str, object]) -> dict[str, object] | None:
    """Of `settings`, dotted, those that differ from their defaults; None where these are not known.

    What a choice of a group sets (model=qwen-1.5b) counts as that choice alone, under the group's
    name, unless the default chooses the same.
    """
    groups = {
        name.removesuffix(".name"): str(value)
        for name, value in settings.items()
        if name.count(".") == 1 and name.endswith(".name") and value
    }
    plain = _composed(()) if "model" in groups else None
    if _is_local(settings):
        groups["model"] = "local"
    if plain is None:
        return None
    others: dict[str, object] = {
        group: name for group, name in groups.items() if plain.get(f"{group}.name") != name
    }
    named = tuple(f"{group}={name}" for group, name in groups.items())
    if (chosen := _composed(named) if others else plain) is None:
        return None
    return others | {
        name: value
        for name, value in settings.items()
        if name not in _PLACES
        and name not in _implied(settings, groups)
        and (name.startswith("grid.axes.") or _plain(chosen.get(name, value)) != _plain(value))
    }


def _is_local(settings: Mapping[str, object]) -> bool:
    """Whether the model is the user's own, by its directory: `model=local`."""
    path = settings.get("model.path")
    return path is not None and settings.get("model.source") == path


def _implied(settings: Mapping[str, object], groups: Mapping[str, str]) -> set[str]:
    """Settings that follow from what is shown: names of choices, and what a directory implies."""
    implied = {f"{group}.name" for group in groups}
    if _is_local(settings):
        implied.add("model.source")
        if settings["model.name"] != Path(str(settings["model.path"])).name.removesuffix(".gguf"):
            implied.remove("model.name")
    return implied


@cache
def _composed(overrides: tuple[str, ...]) -> dict[str, object] | None:
    """Settings by dotted name; None for a choice that is not among the packaged ones."""
    from hydra import compose
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from isosweep.config.compose import packaged

    try:
        with packaged():
            config = compose("config", list(overrides))
            composed: Any = OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException):
        return None
    return flattened(composed)


def _plain(value: object) -> str:
    """Values as they compare: whole numbers alike, lists of one thing and the thing."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return f"{float(value):g}"
    if isinstance(value, list | tuple):
        return ",".join(_plain(item) for item in value)
    return str(value)
