"""A model on disk: a whole one trains, and of a broken one it is said what is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.model_files import architecture_from_config
from isosweep.errors import SettingError
from isosweep.models.checkpoints import broken_parts
from isosweep.models.weights import missing_weights
from tests.conftest import make_config
from tests.models.checkpoints import save_qwen2

pytestmark = pytest.mark.train
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen2(tmp_path_factory.mktemp("qwen2"))


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen2(tmp_path_factory.mktemp("sharded"), shard_bytes=150_000, tied=False)


def broken(directory: Path) -> list[str]:
    document = json.loads((directory / "config.json").read_text())
    return broken_parts(directory, architecture_from_config(document))


def _rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda d: _cut(d / _SINGLE, 100),
            "deserializing header: invalid header length",
        ),
        (lambda d: _cut(d / _SINGLE, 200_000), "incomplete metadata, file not fully covered"),
        (lambda d: (d / _SINGLE).write_bytes(bytes([9]) + bytes(20)), "invalid JSON in header"),
        (
            lambda d: _header(d / _SINGLE, lambda h: h["model.norm.weight"].update(shape=[65])),
            "invalid shape, data type, or offset for tensor",
        ),
        (
            lambda d: _rewrite(d / "config.json", lambda c: c.update(vocab_size=400)),
            "embed_tokens.weight has shape [336, 64], and config.json implies [400, 64]",
        ),
        (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json (or"),
        (
            lambda d: _rewrite(
                d / "tokenizer.json", lambda t: t["added_tokens"].append({"id": 336})
            ),
            "it has token 336, and vocab_size is 336",
        ),
        (lambda d: _cut(d / "config.json", 40), "describes no architecture"),
    ],
)
def test_a_broken_model_is_reported_before_anything_starts(
    damage: Callable[[Path], object], message: str, saved: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(saved, tmp_path / "model")
    damage(model)
    try:
        local = ("model=local", f"model.path={model}", "generation=transformers")
        said = str(missing_weights(make_config(*local).model))
    except SettingError as error:
        said = str(error)
    assert message in said


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: next(d.glob("model-00002*")).unlink(), "model-00002-of-0000"),
        (
            lambda d: _rewrite(d / _INDEX, lambda i: i["weight_map"].pop("lm_head.weight")),
            "missing lm_head.weight",
        ),
    ],
)
def test_every_shard_must_be_there(
    damage: Callable[[Path], object], message: str, sharded: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(sharded, tmp_path / "model")
    damage(model)
    (problem,) = broken(model)
    assert message in problem
