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
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from tests.conftest import isosweep, make_config
from tests.models.checkpoints import save_qwen2
from tests.tasks.files import ROWS, math_overrides, write_rows

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
        said = str(missing_weights(make_config(*_overrides(model, tmp_path)).model))
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


def _overrides(model: Path, folder: Path) -> tuple[str, ...]:
    data = write_rows(folder / "problems.jsonl", ROWS)
    return (
        "model=local",
        f"model.path={model}",
        *math_overrides(data, "task.prompt_tokens=90", "task.completion_tokens=16"),
        "task.max_completion_tokens=16",
        *("recipe=tiny", "hardware=cpu", "generation=transformers", "tracking=none"),
        *("grid=tiny", "grid.num_generations=[2]", "grid.problems_per_batch=[2]"),
        *("grid.seeds=[0]", "grid.min_steps=1", "grid.max_epochs=100"),
        *("evaluation.samples_per_problem=2", "budget_unit=rollouts", "budget=[8,12]"),
    )


def test_a_model_with_its_own_tokenizer_and_chat_template_trains_from_disk(
    saved: Path, tmp_path: Path
) -> None:
    isosweep(*_overrides(saved, tmp_path), cwd=tmp_path)
    (run,) = (RunPaths(path) for path in (tmp_path / "sweeps" / "runs").iterdir())
    records = read_records(run.records).records
    assert [record.step for record in records][-1] == 3
    assert all(len(record.successes) == 4 for record in records)
    # Prompts went through the chat template: more tokens than the problem alone has characters.
    from transformers import AutoTokenizer

    from isosweep.plan.spec import RunSpec
    from isosweep.tasks import training_problems
    from isosweep.training.grpo import prompt_tokens

    spec = RunSpec.from_json(json.loads(run.spec.read_text())["spec"])
    tokenizer = AutoTokenizer.from_pretrained(saved)
    training = training_problems(spec.task)
    counts = [len(prompt_tokens(tokenizer, problem, spec.model)) for problem in training]
    spent = records[-1].compute
    assert spent.rollouts == 12
    assert min(counts) * 12 <= spent.prompt_tokens <= max(counts) * 12
    shown = tokenizer.decode(prompt_tokens(tokenizer, training[0], spec.model))
    assert "<|im_start|>assistant" in shown
    assert json.loads(run.problems.read_text())["training"] == 8
