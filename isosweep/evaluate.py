"""Held-out evaluation that leaves training as it was: own randomness, same problems."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from isosweep.grpo import prompt_text
from isosweep.spec import RunSpec
from isosweep.tasks import Problem, heldout_problems, is_success, scores


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """`successes`: (problems,) correct completions of k; `completion_tokens`: mean length."""

    successes: tuple[int, ...]
    completion_tokens: float


class Evaluator:
    """Evaluates one policy on the task's held-out problems, or on `problems`."""

    def __init__(
        self, spec: RunSpec, tokenizer: Any, problems: Sequence[Problem] | None = None
    ) -> None:
        self._spec = spec
        self._tokenizer = tokenizer
        self._problems = heldout_problems(spec.task) if problems is None else list(problems)
        self._prompts = [prompt_text(tokenizer, problem) for problem in self._problems]

    def __call__(self, model: Any) -> Evaluation:
        """Successes of `samples_per_problem` completions of every problem.

        All random states, and the model's training mode, are put back afterwards.
        """
        settings = self._spec.evaluation
        devices = [model.device] if model.device.type == "cuda" else []
        training = model.training
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(settings.seed)
            model.eval()
            try:
                return self._sample(model)
            finally:
                model.train(training)

    def _sample(self, model: Any) -> Evaluation:
        settings = self._spec.evaluation
        k = settings.samples_per_problem
        per_batch = max(1, settings.batch_size // k)
        successes: list[int] = []
        tokens = 0
        for start in range(0, len(self._problems), per_batch):
            problems = self._problems[start : start + per_batch]
            prompts = self._prompts[start : start + per_batch]
            inputs = self._tokenizer(prompts, return_tensors="pt", padding=True).to(model.device)
            output = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                do_sample=True,
                temperature=settings.temperature,
                top_p=1.0,
                top_k=0,
                max_new_tokens=self._spec.task.completion_limit,
                num_return_sequences=k,
                pad_token_id=self._tokenizer.pad_token_id,
                eos_token_id=self._tokenizer.eos_token_id,
            )
            completions = output[:, inputs["input_ids"].shape[1] :]
            ended = completions == self._tokenizer.eos_token_id
            # Tokens up to and with the first end-of-sequence.
            tokens += int((ended.cumsum(1) - ended.long() == 0).sum())
            texts = self._tokenizer.batch_decode(completions, skip_special_tokens=True)
            asked = [problem for problem in problems for _ in range(k)]
            found = scores(self._spec.task, asked, texts)
            right = [is_success(self._spec.task, score) for score in found]
            successes += [sum(right[at : at + k]) for at in range(0, len(right), k)]
        return Evaluation(
            successes=tuple(successes), completion_tokens=tokens / (len(successes) * k)
        )
