"""Where Hydra ends: the composed config becomes frozen, validated dataclasses.

Nothing behind this module imports Hydra or OmegaConf.
"""

import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from isosweep.config.data_files import find_data
from isosweep.config.model_files import architecture_from_config
from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.errors import SettingError


def from_hydra(composed: DictConfig) -> SweepConfig:
    """The validated config of a composed Hydra config.

    With `model.path`, the architecture is read from its config.json. Raises SettingError
    for an unknown key, a missing one, a value of the wrong type, or a broken rule.
    """
    try:
        plain: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        setting = str(error.full_key)
        raise SettingError(setting, "???", "has to be given", f"{setting}=VALUE") from None
    plain["from_sweep"] = plain.pop("from")
    read_model(plain["model"])
    find_data(plain["task"])
    return sweep_config(plain)


def read_model(model: dict[str, Any]) -> None:
    """Give the settings of a model that lies at `model.path` the architecture found there.

    Raises SettingError where none is found.
    """
    if model["path"] is None:
        return
    model["architecture"] = asdict(_architecture_at(Path(model["path"])))
    model["name"] = model["name"] or Path(model["path"]).absolute().name
    model["source"] = model["source"] or str(model["path"])


def _architecture_at(directory: Path) -> Any:
    file = directory / "config.json"
    nearest = "model.path=DIRECTORY of a model written by save_pretrained"
    try:
        return architecture_from_config(json.loads(file.read_text()))
    except OSError as error:
        rule = f"must contain a readable config.json ({error.strerror})"
        raise SettingError("model.path", directory, rule, nearest) from None
    except ValueError as error:
        rule = f"{file} describes no architecture that can be planned: {error}"
        raise SettingError("model.path", directory, rule, nearest) from None


def _declared_defaults() -> dict[str, Any]:
    """Defaults that the settings' fields declare, by group: what no file of `conf/` has to repeat.

    Not of model and task, whose groups hold others of which some are not there.
    """
    groups: dict[str, Any] = {}
    for group in fields(SweepConfig):
        kind: Any = group.type
        if group.name not in ("model", "task") and hasattr(kind, "__settings_group__"):
            known = [item for item in fields(kind) if item.default is not MISSING]
            groups[group.name] = {item.name: item.default for item in known}
    return groups


# Named first in conf/config.yaml, so that files and overrides come after it.
ConfigStore.instance().store(name="declared_defaults", node=_declared_defaults())


def config_directory() -> Path:
    """The packaged `conf/` directory."""
    return Path(__file__).resolve().parent.parent / "conf"
