"""Commands of conf/trainer: every word they say is one that the trainer itself knows."""

import re
import sys
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.conftest import make_config, missing


def folder_of(package: str) -> Path:
    """Where a package's files are; nothing of it is imported."""
    folder = Path(sys.prefix) / "trainers" / package
    if not folder.is_dir():
        missing("weights", f"{package} is not installed here: make setup-weights")
    return folder


def words_of(trainer: str) -> list[str]:
    config = make_config(f"trainer={trainer}").trainer
    return [*config.command, *config.resume]


def test_verl_knows_every_key() -> None:
    folder = folder_of("verl") / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        known = compose("ppo_trainer")
    keys = [word.partition("=")[0] for word in words_of("verl") if "=" in word]
    assert len(keys) > 15
    for key in keys:
        # As it is: interpolations lead to verl's own code.
        parent, _, name = key.rpartition(".")
        # Iterated, since `in` does not see what is still to be said.
        assert name in list(OmegaConf.select(known, parent)), key
    source = (folder.parent.parent / "utils" / "tracking.py").read_text()
    assert "VERL_FILE_LOGGER_PATH" in source
    assert {"step", "data"} <= set(re.findall(r'"(\w+)": \w+', source))


def test_openrlhf_knows_every_option() -> None:
    source = (folder_of("openrlhf") / "cli" / "train_ppo_ray.py").read_text()
    known = set(re.findall(r'add_argument\(\s*f?"--([\w.{}]+)"', source))
    known |= {name.replace("{prefix}", "actor") for name in known}
    options = [word[2:] for word in words_of("openrlhf") if word.startswith("--")]
    assert len(options) > 10
    assert set(options) <= known
    assert '"group_norm"' in source


def test_trl_knows_every_option() -> None:
    from dataclasses import fields

    from trl import GRPOConfig, ModelConfig

    known = {item.name for kind in (GRPOConfig, ModelConfig) for item in fields(kind)}
    options = [word[2:] for word in words_of("trl_script") if word.startswith("--")]
    assert len(options) > 10
    assert set(options) <= known
