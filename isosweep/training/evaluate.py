"""Held-out evaluation that leaves training as it was: own randomness, same problems."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object

from isosweep.plan.spec import RunSpec
from isosweep.tasks import Problem, heldout_problems, is_success, scores
from isosweep.training.grpo import prompt_tokens
from isosweep.training.protocols import Policy, Sampler, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """`successes`: (problems,) correct completions of k; `completion_tokens`: mean length."""

    successes: tuple[int, ...]
    completion_tokens: float


class Evaluator:
    """Evaluates one policy on the task's held-out problems, or on `problems`.

    Through `sampler` if there is one. Of several `ranks` each samples its share of the problems,
    and all have the whole result.
    """

    def __init__(
        self,
        spec: RunSpec,
        tokenizer: Tokenizer,
        *,
        sampler: Sampler | None = None,
        problems: Sequence[Problem] | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self._spec = spec
        self._tokenizer = tokenizer
        self._sampler = sampler
        everything = heldout_problems(spec.task) if problems is None else problems
        size = math.ceil(len(everything) / ranks)
        # The last shares may be smaller, or empty.
        self._problems = list(everything)[rank * size : (rank + 1) * size]
        self._prompts = [
            prompt_tokens(tokenizer, problem, spec.model) for problem in self._problems
        ]
        self._rank, self._ranks = rank, ranks

    def __call__(self, model: Policy) -> Evaluation:
        """Successes of `samples_per_problem` completions of every problem.

        All random states, and the model's training mode, are put back afterwards.
        """
        settings = self._spec.evaluation
        devices = [model.device] if model.device.type == "cuda" else []
        training = model.training
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(settings.seed + self._rank)
            model.eval()
            try:
                sampled = self._asked(self._sampler) if self._sampler else self._sample(model)
            finally:
                model.train(training)
        return self._together(*sampled)

    def can_answer(self, model: Policy) -> bool:
        """Whether the logits of the first batch's prompts are finite: from others none is drawn."""
        prompts = self._prompts[: self._problems_at_once]
        if not prompts:
            return True
        with torch.no_grad():
            logits = model(**self._inputs(prompts, model), logits_to_keep=1).logits
            return bool(torch.isfinite(logits).all())

    @property
    def _problems_at_once(self) -> int:
        settings = self._spec.evaluation
        return max(1, settings.batch_size // settings.samples_per_problem)

    def _together(self, successes: list[int], tokens: int) -> Evaluation:
        if self._ranks > 1:
            shares = gather_object([(successes, tokens)])
            successes = [count for share, _ in shares for count in share]
            tokens = sum(share for _, share in shares)
        answers = len(successes) * self._spec.evaluation.samples_per_problem
        return Evaluation(successes=tuple(successes), completion_tokens=tokens / answers)

    def _right(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[int]:
        """How many of each problem's k `texts`, one after the other, are right: (problems,)."""
        k = self._spec.evaluation.samples_per_problem
        asked = [problem for problem in problems for _ in range(k)]
        right = [
            is_success(self._spec.task, score) for score in scores(self._spec.task, asked, texts)
        ]
        return [sum(right[at : at + k]) for at in range(0, len(right), k)]

    def _inputs(self, prompts: Sequence[list[int]], model: Policy) -> dict[str, Any]:
        padded = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        return {name: padded[name].to(model.device) for name in ("input_ids", "attention_mask")}

    def _asked(self, sampler: Sampler) -> tuple[list[int], int]:
        """What the engine that generates training's rollouts, with its weights, answers."""
        settings = self._spec.evaluation
        samples = sampler.sample(
            self._prompts,
            k=settings.samples_per_problem,
            temperature=settings.temperature,
            limit=self._spec.task.completion_limit,
            seed=settings.seed,
        )
        texts = [text for problem in samples.texts for text in problem]
        return self._right(self._problems, texts), sum(map(sum, samples.tokens))

    def _sample(self, model: Policy) -> tuple[list[int], int]:
        settings = self._spec.evaluation
        k, per_batch = settings.samples_per_problem, self._problems_at_once
        ends = _end_tokens(self._tokenizer, model)
        successes: list[int] = []
        tokens = 0
        for start in range(0, len(self._problems), per_batch):
            inputs = self._inputs(self._prompts[start : start + per_batch], model)
            output = model.generate(
                **inputs,
                do_sample=True,
                temperature=settings.temperature,
                top_p=1.0,
                top_k=0,
                max_new_tokens=self._spec.task.completion_limit,
                num_return_sequences=k,
                pad_token_id=self._tokenizer.pad_token_id,
                eos_token_id=ends,
            )
            completions = output[:, inputs["input_ids"].shape[1] :]
            ended = torch.isin(completions, torch.tensor(ends, device=completions.device))
            # Tokens up to and with the first end-of-sequence.
            tokens += int((ended.cumsum(1) - ended.long() == 0).sum())
            texts = self._tokenizer.batch_decode(completions, skip_special_tokens=True)
            successes += self._right(self._problems[start : start + per_batch], texts)
        return successes, tokens


def _end_tokens(tokenizer: Tokenizer, model: Policy) -> list[int]:
    """Tokens that end an answer: those that end a rollout in training."""
    configured = model.generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    return sorted({end for end in [*ends, tokenizer.eos_token_id] if end is not None})
