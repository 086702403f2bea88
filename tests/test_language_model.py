"""A real language model out of its package: SmolLM2-135M-Instruct, in blocks of 4 bits."""

import re
from pathlib import Path
from typing import Any

import pytest

from isosweep.gguf import origin
from isosweep.models.weights import missing_weights, weights
from tests import language_model
from tests.conftest import make_config

END = 2
# None of these tokens is nearer to the second likeliest than .06 in its logarithm.
ANSWERS = {
    "What is 2 + 2?": r"\b4\.",
    "What is 3 x 4?": r"\b12\.",
    "What is the capital of France?": r"Paris\.",
}


@pytest.fixture(scope="module")
def directory() -> Path:
    return language_model.weights()


@pytest.fixture(scope="module")
def tokenizer(directory: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)


def test_the_packaged_weights_are_what_a_run_of_the_model_trains(directory: Path) -> None:
    model = make_config("model=smollm2-135m", "generation=transformers").model
    assert weights(model) == str(directory)
    # Its shape among them.
    assert missing_weights(model) == []
    digest = origin(directory)
    assert digest is not None
    assert digest.startswith("b179c9523d0e6a0f")


def test_it_knows_what_it_was_taught(directory: Path, tokenizer: Any) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory)
    assert model.generation_config.eos_token_id == END
    for question, expected in ANSWERS.items():
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        with torch.no_grad():
            said = model.generate(**ids, do_sample=False, max_new_tokens=16)
        answer = said[0, ids["input_ids"].shape[1] :].tolist()
        assert answer[-1] == END, question
        assert re.search(expected, tokenizer.decode(answer)), tokenizer.decode(answer)
