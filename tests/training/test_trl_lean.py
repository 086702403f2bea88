"""Work around TRL's numbers is cut, and no number changes: parameters and metrics, bit for bit."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_ci
from tests.training.builders import parameters, spec_of, train, trainer_of

pytestmark = pytest.mark.train

CASES = {
    "default": (),
    "a temperature": ("recipe.temperature=0.6", "recipe.top_p=0.9"),
    "prompts of two lengths": ("task.sort.levels=[4,6]",),
    "a reference, batches scored again": ("recipe.beta=0.01", "recipe.num_iterations=2"),
    "answers cut off": ("task.max_completion_tokens=3", "recipe.mask_truncated_completions=true"),
}


def trained(directory: Path, overrides: tuple[str, ...]) -> tuple[list[Any], list[Any], Any]:
    """Parameters after three steps, the metrics of each, and whose steps they were."""
    trainer = trainer_of(spec_of(*overrides), directory)
    metrics = train(trainer, 3)
    return parameters(trainer), metrics, trainer


@pytest.mark.parametrize(
    "case",
    in_ci(CASES, "a temperature", "prompts of two lengths", "a reference, batches scored again"),
)
def test_a_lean_trainer_trains_as_trls(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from trl.trainer import utils

    from isosweep.training import trl_adapter

    lean, metrics, trainer = trained(tmp_path / "lean", CASES[case])
    assert trainer._samples_plainly()
    monkeypatch.setattr(trl_adapter, "is_plain", lambda *_: False)
    monkeypatch.setattr(trl_adapter, "pad", utils.pad)
    monkeypatch.setattr(trl_adapter.TRLTrainer, "_words", utils._CHUNKED_LOGPROB_CHUNK_SIZE)
    whole, expected, _ = trained(tmp_path / "whole", CASES[case])
    assert all(torch.equal(a, b) for a, b in zip(lean, whole, strict=True))
    assert metrics == expected
    assert len(metrics) == 3
    assert "reward" in metrics[0]


def test_what_is_sampled_otherwise_is_left_to_generate(tmp_path: Path) -> None:
    from transformers import GenerationConfig

    from isosweep.training.trl_lean import is_plain

    trainer = trainer_of(spec_of(), tmp_path)
    model, config = trainer.model, trainer.generation_config
    assert is_plain(model, config)
    for changes in (
        {"top_k": 5},
        {"min_new_tokens": 2},
        {"suppress_tokens": [3]},
        {"repetition_penalty": 1.05},
        {"do_sample": False},
    ):
        assert not is_plain(model, GenerationConfig(**{**config.to_diff_dict(), **changes}))
    # What TRL leaves open, the model's own settings say.
    model.generation_config.no_repeat_ngram_size = 3
    assert not is_plain(model, config)
    model.generation_config.no_repeat_ngram_size = None
    model.config.layer_types = ["full_attention", "sliding_attention"]
    assert not is_plain(model, config)
    model.config.layer_types = ["full_attention", "full_attention"]
    assert is_plain(model, config)
    model.gradient_checkpointing_enable()
    assert not is_plain(model, config)


def test_what_samples_is_looked_at_again_where_settings_change(tmp_path: Path) -> None:
    trainer = trainer_of(spec_of(), tmp_path)
    assert trainer._samples_plainly()
    with trainer.limited(2):
        assert trainer._samples_plainly()
    trainer.generation_config.suppress_tokens = trainer.eos_token_ids
    assert not trainer._samples_plainly()
    # Adapters are sampled by `generate`.
    assert not trainer_of(spec_of("recipe.lora_rank=4"), tmp_path)._samples_plainly()


def test_padding_is_trls() -> None:
    import torch
    from trl.trainer.utils import pad as trls

    from isosweep.training.trl_lean import pad

    ragged = [torch.tensor([1, 2, 3]), torch.tensor([4])]
    for side in ("left", "right"):
        assert torch.equal(pad(ragged, 7, side), trls(ragged, 7, side))
        assert torch.equal(pad(ragged, 7, side, 4), trls(ragged, 7, side, 4))
