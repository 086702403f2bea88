"""A vLLM engine looked at from inside, and what is asked of the runs that one sampled for."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.tasks import heldout_problems
from tests.conftest import missing


def require_vllm() -> None:
    """Skip or fail where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        missing("vllm", "vLLM is not installed in this environment: make test-vllm has one")


def only_run(cwd: Path) -> RunPaths:
    (path,) = (cwd / "sweeps" / "runs").iterdir()
    return RunPaths(path)


class Bench:
    """A trainer with its engine and sampler, two prompts, and two ways to score what is sampled."""

    def __init__(self, spec: RunSpec, checkpoints: Path) -> None:
        import torch

        from isosweep.training.grpo import load_policy, make_stream, make_trainer, prompt_tokens
        from isosweep.training.ledger import Ledger
        from isosweep.training.vllm import make_sampler

        model, self.tokenizer = load_policy(spec, weights(spec.model))
        self.trainer = make_trainer(
            spec, model, self.tokenizer, Ledger(spec), make_stream(spec), checkpoints
        )
        self.noise = torch.random.get_rng_state()
        sampler = make_sampler(spec, self.trainer, self.tokenizer)
        assert sampler is not None
        self.sampler = sampler
        self.engine = self.trainer.vllm_generation
        self.prompts = [
            prompt_tokens(self.tokenizer, problem, spec.model)
            for problem in heldout_problems(spec.task)[:2]
        ]

    def largest_difference(self, each: int = 8) -> float:
        """Between vLLM's and transformers' log-probabilities of tokens that vLLM samples: of `each`
        completions of a prompt."""
        import torch

        prompts = [prompt for prompt in self.prompts for _ in range(each)]
        _, completions, scored, _ = self.engine.generate(prompts, None, num_generations=each)
        worst = 0.0
        for prompt, completion, scores in zip(prompts, completions, scored, strict=True):
            with torch.no_grad():
                logits = self.trainer.model(torch.tensor([[*prompt, *completion]])).logits[0]
            own = torch.log_softmax(logits / self.engine.temperature, dim=-1)
            place = range(len(prompt) - 1, len(prompt) + len(completion) - 1)
            for at, token, (score,) in zip(place, completion, scores, strict=True):
                worst = max(worst, abs(float(own[at, token]) - score))
        return worst

    def samples(self, **changed: Any) -> Any:
        asked = {"k": 6, "temperature": 1.0, "limit": 9, "seed": 0, **changed}
        return self.sampler.sample(self.prompts, **asked)


@contextmanager
def a_bench(spec: RunSpec, checkpoints: Path) -> Iterator[Bench]:
    """A bench; the environment that its libraries set is put back, since runs would go by it."""
    with mock.patch.dict(os.environ):
        yield Bench(spec, checkpoints)
