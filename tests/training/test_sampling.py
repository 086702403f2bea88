"""Sampling by transformers: as by `generate`, prompts read once, no answer moved by its batch."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import in_ci
from tests.models.families import FAMILIES, save_family

pytestmark = pytest.mark.train
# Two of one length, and one that the others are padded beside.
PROMPTS = [[5, 6, 7, 8, 9], [3, 4], [5, 6, 7, 8, 9], [9, 8, 7, 6, 5], [3, 4]]
LIMIT = 8


def model_of(directory: Path, family: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(save_family(directory / family, family))
    with torch.no_grad():
        # Peaked enough that ends come at different places.
        model.get_output_embeddings().weight.mul_(4)
    return model.eval()


def sampler(shared: bool = False, ends: tuple[int, ...] = (1, 2, 5)) -> Any:
    from isosweep.training.sampling import Sampler

    return Sampler(limit=LIMIT, temperature=0.7, ends=ends, padding=0, shared=shared)


def by_generate(model: Any, prompts: list[list[int]]) -> list[list[int]]:
    import torch

    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    made = model.generate(
        **{"input_ids": ids, "attention_mask": mask, "max_new_tokens": LIMIT},
        **{"do_sample": True, "temperature": 0.7, "top_p": 1.0, "top_k": 0},
        **{"pad_token_id": 0, "eos_token_id": [1, 2, 5]},
    )[:, width:].tolist()
    ended = [[at for at, token in enumerate(row) if token in (1, 2, 5)] for row in made]
    return [row[: at[0] + 1] if at else row for row, at in zip(made, ended, strict=True)]


@pytest.mark.parametrize("family", in_ci(FAMILIES, "Qwen2Moe", "Gemma3Text"))
def test_every_family_is_sampled_as_by_generate(family: str, tmp_path: Path) -> None:
    import torch

    model = model_of(tmp_path, family)
    for prompts in (PROMPTS, PROMPTS[::2][:2]):
        torch.manual_seed(3)
        expected = by_generate(model, prompts)
        torch.manual_seed(3)
        assert sampler().sample(model, prompts) == expected
    # A prompt that is read once is the prompt that was read for each.
    made = []
    for shared in (True, False):
        torch.manual_seed(3)
        made.append(sampler(shared=shared).sample(model, PROMPTS))
    assert made[0] == made[1]


def test_an_answer_is_its_own_whatever_is_sampled_beside_it(tmp_path: Path) -> None:
    from isosweep.training.seeds import seeds_by_name

    model = model_of(tmp_path, "Qwen3")
    ends = tuple(range(1, model.config.vocab_size, 4))
    own, shared = sampler(ends=ends), sampler(shared=True, ends=ends)
    prompts = [PROMPTS[at % 5] for at in range(40)]
    numbers = seeds_by_name(7, [(str(at // 8), at % 8) for at in range(40)])
    together = own.sample(model, prompts, numbers)
    # Few go on to the last position: rows were dropped on the way.
    assert 2 < sum(len(answer) == LIMIT for answer in together) < 10
    assert together == shared.sample(model, prompts, numbers)
    for at in (0, 13, 39):
        assert own.sample(model, [prompts[at]], numbers[at : at + 1]) == [together[at]]
    other = seeds_by_name(8, [(str(at // 8), at % 8) for at in range(40)])
    assert own.sample(model, prompts, other) != together


def test_seeds_draw_what_is_likely_as_often_as_it_is() -> None:
    import torch

    from isosweep.training.sampling import _inverse, _uniform
    from isosweep.training.seeds import seeds_by_name

    answers, expected = 20_000, torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05, 0.0])
    numbers = seeds_by_name(0, [(f"problem {at // 4}", at % 4) for at in range(answers)])
    drawn = [_inverse(expected.repeat(answers, 1), _uniform(numbers, at)) for at in range(3)]
    for tokens in drawn:
        counts = torch.bincount(tokens, minlength=6)
        for share, count in zip(expected.tolist(), counts.tolist(), strict=True):
            # Four standard errors.
            assert abs(count - answers * share) <= 4 * math.sqrt(answers * share * (1 - share))
    # What is drawn at one place tells nothing of the next.
    matrix = np.corrcoef(np.stack([tokens.numpy() for tokens in drawn]))
    assert np.abs(matrix - np.eye(3)).max() < 4 / math.sqrt(answers)
