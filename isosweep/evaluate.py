"""Held-out evaluation that leaves training as it was: own randomness, same problems."""

from dataclasses import dataclass
from typing import Any

import torch

from isosweep.grpo import prompt_tokens
from isosweep.spec import RunSpec
from isosweep.tasks import heldout_problems, is_correct
from isosweep.vllm_backend import VllmSampler


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """`successes`: (problems,) correct completions of k; `completion_tokens`: mean length."""

    successes: tuple[int, ...]
    completion_tokens: float


class Evaluator:
    """Evaluates one policy on the task's held-out problems; through `sampler` if there is one."""

    def __init__(self, spec: RunSpec, tokenizer: Any, sampler: VllmSampler | None = None) -> None:
        self._spec = spec
        self._tokenizer = tokenizer
        self._sampler = sampler
        self._problems = heldout_problems(spec.task)
        self._prompts = [prompt_tokens(tokenizer, problem) for problem in self._problems]

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
                return self._sample(model) if self._sampler is None else self._asked(self._sampler)
            finally:
                model.train(training)

    def can_answer(self, model: Any) -> bool:
        """Whether the logits of the first batch's prompts are finite: from others none is drawn."""
        prompts = self._prompts[: self._problems_at_once]
        padded = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        inputs = padded.to(model.device)
        with torch.no_grad():
            return bool(torch.isfinite(model(**inputs, logits_to_keep=1).logits).all())

    @property
    def _problems_at_once(self) -> int:
        settings = self._spec.evaluation
        return max(1, settings.batch_size // settings.samples_per_problem)

    def _asked(self, sampler: VllmSampler) -> Evaluation:
        """What the engine that generates training's rollouts, with `model`'s weights, answers."""
        settings = self._spec.evaluation
        samples = sampler.sample(
            self._prompts,
            k=settings.samples_per_problem,
            temperature=settings.temperature,
            limit=self._spec.task.completion_limit,
            seed=settings.seed,
        )
        successes = tuple(
            sum(is_correct(self._spec.task, problem.answer, text) for text in texts)
            for problem, texts in zip(self._problems, samples.texts, strict=True)
        )
        tokens = sum(map(sum, samples.tokens)) / (len(successes) * settings.samples_per_problem)
        return Evaluation(successes=successes, completion_tokens=tokens)

    def _sample(self, model: Any) -> Evaluation:
        settings = self._spec.evaluation
        k, per_batch = settings.samples_per_problem, self._problems_at_once
        successes: list[int] = []
        tokens = 0
        for start in range(0, len(self._problems), per_batch):
            problems = self._problems[start : start + per_batch]
            prompts = self._prompts[start : start + per_batch]
            inputs = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(
                model.device
            )
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
            for index, problem in enumerate(problems):
                answers = texts[index * k : (index + 1) * k]
                right = [is_correct(self._spec.task, problem.answer, text) for text in answers]
                successes.append(sum(right))
        return Evaluation(
            successes=tuple(successes), completion_tokens=tokens / (len(successes) * k)
        )
