"""Where Hydra ends: the composed config becomes frozen, validated dataclasses.

Nothing behind this module imports Hydra or OmegaConf.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from isosweep.config.composition import composed_choices
from isosweep.config.data_files import find_data, find_data_of_sets
from isosweep.config.executed import said
from isosweep.config.model_files import read_model
from isosweep.config.recipe import own_loss
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.config.typed import typed as as_text
from isosweep.config.variants import combine, flattened
from isosweep.errors import SettingError

_PARSER = OverridesParser.create()


def from_hydra(composed: DictConfig, overrides: Sequence[str] = ()) -> SweepConfig:
    """The validated config of a composed Hydra config; `overrides`: what was typed for it.

    With `model.path`, the architecture is read from its config.json. Raises SettingError
    for an unknown key, a missing one, a value of the wrong type, or a broken rule.
    """
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        setting = str(error.full_key)
        raise SettingError(setting, "???", "has to be given", f"{setting}=VALUE") from None
    plain["from_sweep"] = plain.pop("from")
    plain["given"] = [each.key_or_group for each in _PARSER.parse_overrides(list(overrides))]
    read_model(plain["model"])
    if any("model.path" in each.settings for each in combine(plain["grid"]["axes"] or {})):
        plain["model"]["directory"] = str(Path.cwd())
    find_data(plain["task"])
    find_data_of_sets(plain["evaluation"])
    plain["grid"]["composed"] = composed_choices(plain, overrides, config_directory())
    try:
        config = sweep_config(plain)
    except SettingError as error:
        raise _advised(error, overrides) from None
    own = {name: own_loss(name) for name in _losses(plain) if isinstance(name, str)}
    sources = {name: loss.source_sha256() for name, loss in own.items() if loss is not None}
    return replace(config, loss_sources=sources) if sources else config


def _losses(plain: dict[str, Any]) -> Iterator[object]:
    """The loss of the sweep, and those that variants of `grid.axes` have in its place."""
    yield plain["recipe"]["loss_type"]
    axes = [each.settings for each in combine(plain["grid"]["axes"] or {})]
    choices = [each["settings"] for each in plain["grid"]["composed"] or ()]
    for settings in [*axes, *choices]:
        yield flattened(settings).get("recipe.loss_type")


def _advised(error: SettingError, overrides: Sequence[str]) -> SettingError:
    """The refusal, with what its setting would be if it had not been typed as the choice."""
    others = [text for text in overrides if text.lstrip("+").partition("=")[0] != error.setting]
    if not error.example or len(others) == len(overrides):
        return error
    try:
        with packaged():
            default = OmegaConf.select(compose("config", overrides=others), error.setting)
    except (HydraException, OmegaConfBaseException):
        # Of groups that are not packaged.
        return error
    if isinstance(default, DictConfig):
        return error
    plain = OmegaConf.to_container(default) if isinstance(default, ListConfig) else default
    nearest = f"{error.setting}={as_text(plain)}"
    return SettingError(error.setting, error.value, error.rule, nearest)


def compose_config(overrides: Sequence[str]) -> SweepConfig:
    """The validated config of `overrides`, composed by Hydra without a command line.

    Raises as `from_hydra` does, and Hydra's own errors for what cannot be composed.
    """
    with packaged():
        config = from_hydra(compose("config", overrides=list(overrides)), overrides)
    said(config)
    return config


@contextmanager
def packaged() -> Iterator[None]:
    """Hydra over the packaged files, whatever else this process composes with Hydra: a notebook may
    have started it for an application of its own."""
    own = GlobalHydra.instance()
    others = own.hydra
    own.clear()
    try:
        with initialize_config_dir(str(config_directory()), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = others


def _declared_defaults() -> dict[str, Any]:
    """Defaults that the settings' fields declare, by group: what no file of `conf/` has to repeat.

    Not of model and task, whose groups hold others of which some are not there.
    """
    groups: dict[str, Any] = {}
    for group in fields(SweepConfig):
        kind: Any = group.type
        if group.name not in ("model", "task") and hasattr(kind, "__settings_group__"):
            groups[group.name] = _declared(kind)
    return groups


def _declared(kind: Any) -> dict[str, Any]:
    """Defaults of a group's settings, and of all that a group inside it has.

    An empty dictionary is null: Hydra would refuse names that are not in it already.
    """
    known = {item.name: item.default for item in fields(kind) if item.default is not MISSING}
    for item in fields(kind):
        inner: Any = item.default_factory
        if hasattr(inner, "__settings_group__"):
            values = {other.name: getattr(inner(), other.name) for other in fields(inner)}
            known[item.name] = {k: None if value == {} else value for k, value in values.items()}
    return known


# Named first in conf/config.yaml, so that files and overrides come after it.
ConfigStore.instance().store(name="declared_defaults", node=_declared_defaults())


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent.parent / "conf"
