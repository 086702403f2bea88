"""What a model ships of sampling settings acts nowhere: a run samples as its recipe says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from isosweep.models.builtin import builtin_model
from tests.conftest import in_ci
from tests.training.builders import listen, parameters, spec_of, train, trainer_of

pytestmark = pytest.mark.train

# Two ends of an answer, of which the tokenizer knows one: the digit 9 is token 11.
EOS = [1, 11]
ENDS = {"eos_token_id": EOS, "pad_token_id": 0}
# Both are read by one function of transformers.
FILES = ("generation_config.json", "config.json")
SHIPPED = {
    **{"do_sample": True, "temperature": 0.3, "top_k": 3, "top_p": 0.5, "min_p": 0.2},
    **{"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "suppress_tokens": [5]},
    **{"min_new_tokens": 3, "max_new_tokens": 2, "cache_implementation": "hybrid"},
}


def shipping(directory: Path, file: str, **settings: Any) -> Path:
    """The built-in model in `directory`, whose `file` says `settings` as well as the ends."""
    shutil.copytree(builtin_model(), directory)
    (directory / "generation_config.json").unlink()
    saved = directory / file
    document = json.loads(saved.read_text()) if saved.exists() else {}
    saved.write_text(json.dumps({**document, **ENDS, **settings}))
    return directory


def trained(directory: Path, checkpoints: Path) -> tuple[list[Any], list[Any]]:
    """Every completion of three steps, and the parameters after them."""
    local = ("model=local", f"model.path={directory}", "generation=transformers", "budget=1e10")
    tiny = ("recipe=tiny", "hardware=cpu", "grid=tiny", "task=sort")
    trainer = trainer_of(spec_of(*local, *tiny, "task.sort.levels=[4,6]"), checkpoints)
    heard = listen(trainer)
    train(trainer, 3)
    return [step["ids"] for step in heard], parameters(trainer)


@pytest.mark.parametrize("file", in_ci(FILES, "generation_config.json"))
def test_training_takes_nothing_but_the_ends_from_a_models_file(file: str, tmp_path: Path) -> None:
    import torch

    plain, expected = trained(shipping(tmp_path / "plain", file), tmp_path / "a")
    completions, parameters = trained(
        shipping(tmp_path / "shipped", file, **SHIPPED), tmp_path / "b"
    )
    assert completions == plain
    assert all(torch.equal(a, b) for a, b in zip(parameters, expected, strict=True))
    assert {ids[-1] for step in plain for ids in step} >= set(EOS)
