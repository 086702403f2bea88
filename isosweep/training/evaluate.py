"""Held-out evaluation that leaves training as it was: own randomness, same problems.

That before training is shared by all runs of a model: stored in `<sweeps_dir>/evaluations/`, under
a name by all that can change its numbers. Runs that begin at the same time each take it, with the
same numbers.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch
from accelerate.utils import gather_object

from isosweep.config.identity import identity
from isosweep.config.task import TaskConfig
from isosweep.files import read_json, write_json
from isosweep.models.prompts import prompt_tokens
from isosweep.models.weights import content_identity
from isosweep.plan.spec import RunSpec
from isosweep.store.completions import (
    AnsweredProblem,
    Completion,
    KeptCompletions,
    append_completions,
    kept_problems,
    shared_completions,
    shortened,
)
from isosweep.store.records import Evaluation
from isosweep.tasks import Judged, Problem, heldout_problems, is_success, judge_later, tells_answers
from isosweep.training.changed import without_routing
from isosweep.training.distributed import Rank
from isosweep.training.generator import Generator
from isosweep.training.sampling import Policy, Sampler, Tokenizer
from isosweep.training.seeds import seeds_by_name
from isosweep.training.vllm import VllmSampler

# Of an evaluation before training that is stored: part of its name.
_FORMAT = 3
# Of a run's identity, what acts in training only.
_TRAINING = (
    *("num_generations", "problems_per_batch", "seed", "learning_rate", "micro_batch"),
    *("recipe", "task"),
)
# Of the recipe: adapters change the precision that the policy is held in.
_RECIPE = ("lora_rank", "cast_lm_head_to_fp32")


class Evaluator:
    """Evaluates one policy on the task's held-out problems, or on `problems`.

    Through `sampler` if there is one, else in batches, after each of which `on_batch` is called.
    Of several ranks each samples its share of the problems, and all have the whole result.
    """

    def __init__(
        self,
        spec: RunSpec,
        tokenizer: Tokenizer,
        *,
        sampler: VllmSampler | Generator | None = None,
        problems: Sequence[Problem] | None = None,
        base: Path | None = None,
        rank: Rank | None = None,
        on_batch: Callable[[], object] = lambda: None,
        keep: int = 0,
        top_p: float = 1.0,
    ) -> None:
        """`base`: where the evaluation before training is shared with other runs; `keep`: problems
        whose answers are kept; `top_p`: probability mass that is sampled from, where there is no
        `sampler`."""
        self.kept: tuple[AnsweredProblem, ...] = ()
        """On rank 0, the answers of the newest evaluation that are kept."""
        self._spec, self._base, self._top_p = spec, base, top_p
        self._tokenizer, self._sampler, self._on_batch = tokenizer, sampler, on_batch
        self._rank = rank or Rank()
        everything = heldout_problems(spec.task) if problems is None else problems
        self._keep = kept_problems([each.problem_id for each in everything], keep)
        size = math.ceil(len(everything) / self._rank.count)
        own = list(everything)[self._rank.number * size :][:size]
        # The last shares may be smaller, or empty. Where ranks share a model, all have to call it
        # equally often: what is lacking is filled with a problem whose answers do not count.
        self._problems = own + [everything[0]] * (size - len(own))
        self._own = len(own)
        self._prompts = [
            prompt_tokens(tokenizer, problem, spec.model) for problem in self._problems
        ]

    def before_training(self, model: Policy) -> Evaluation:
        """Return the evaluation that another run has stored; else take it, and store it."""
        base = self._base if self._rank.leads else None
        shared = None
        # One that cannot be read is taken anew.
        with suppress(KeyError, TypeError, ValueError, OSError):
            document = None if base is None else read_json(base)
            shared = None if document is None else Evaluation.from_json(document)
        shared = self._rank.agree(shared)
        if shared is not None:
            if base is not None and self._keep:
                made = shared_completions(base.with_suffix(""))
                self.kept = tuple(each for each in made if each.problem_id in self._keep)
            return shared
        taken = self(model)
        if base is not None:
            # A disk that is full costs other runs the evaluation, and no more.
            with suppress(OSError):
                # Of sweeps that are away nothing is made anew.
                base.parent.mkdir(exist_ok=True)
                write_json(base, taken.to_json())
                if self.kept:
                    kept = KeptCompletions(step=0, heldout=self.kept)
                    append_completions(base.with_suffix(""), 1, kept)
        return taken

    def __call__(self, model: Policy) -> Evaluation:
        """Successes of `samples_per_problem` completions of every problem, and what is scored.

        All random states, and the model's training mode, are put back afterwards.
        """
        devices = [model.device] if model.device.type == "cuda" else []
        with without_routing(model.config), torch.random.fork_rng(devices=devices):
            answers = self._answers(model)
        return self._together(answers[: self._own * self._spec.evaluation.samples_per_problem])

    def can_answer(self, model: Policy) -> bool:
        """Whether the logits of a micro-batch of prompts are finite: from others none is drawn."""
        prompts = self._prompts[: self._spec.micro_batch]
        padded = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        read = {name: padded[name].to(model.device) for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            return bool(torch.isfinite(model(**read, logits_to_keep=1).logits).all())

    def _together(self, answers: Sequence[Completion]) -> Evaluation:
        """The evaluation of all ranks, of this one's answers (problems x k,)."""
        k = self._spec.evaluation.samples_per_problem
        found: list[tuple[int, float]] = []
        kept = []
        for number, problem in enumerate(self._problems[: self._own]):
            samples = answers[number * k : (number + 1) * k]
            right = [each.right is True for each in samples]
            found.append((sum(right), majority(right, [each.answer for each in samples])))
            if problem.problem_id in self._keep:
                kept.append(answered(problem, samples))
        tokens = sum(each.tokens or 0 for each in answers)
        if self._rank.count > 1:
            shares = gather_object([(found, tokens, kept)])
            found = [problem for share, *_ in shares for problem in share]
            tokens = sum(share for _, share, _ in shares)
            kept = [problem for *_, share in shares for problem in share]
        self.kept = tuple(kept)
        successes, votes = zip(*found, strict=True)
        return Evaluation(
            successes=successes,
            samples_per_problem=k,
            completion_tokens=tokens / (len(found) * k),
            scores={"majority": votes} if tells_answers(self._spec.task) else {},
        )

    def _answers(self, model: Policy) -> list[Completion]:
        """k answers of each problem in a row; a batch is judged while the next is sampled."""
        k, size = self._spec.evaluation.samples_per_problem, self._spec.evaluation_batch
        places = range(len(self._problems) * k)
        batches: list[Sequence[int]] = [places]
        if self._sampler is None:
            # Longest prompts first: should memory not suffice, that shows at once.
            order = sorted(places, key=lambda at: -len(self._prompts[at // k]))
            batches = [order[start : start + size] for start in places[::size]]
        ends, judging = _end_tokens(self._tokenizer, model), []
        for batch in batches:
            made = self._sample(model, batch, ends)
            texts = self._tokenizer.batch_decode(made, skip_special_tokens=True)
            problems = [self._problems[at // k] for at in batch]
            judge = judge_later(self._spec.task, problems, texts)
            judging.append((batch, problems, texts, made, judge))
            self._on_batch()
        answers = {
            at: completion(self._spec.task, problem, (text, ids), ends, one)
            for *columns, judge in judging
            for at, problem, text, ids, one in zip(*columns, judge(), strict=True)
        }
        return [answers[at] for at in places]

    def _sample(self, model: Policy, batch: Sequence[int], ends: list[int]) -> list[list[int]]:
        """Tokens of the answers numbered in `batch`; of an engine, which has the weights of
        training's rollouts, of all."""
        settings, k = self._spec.evaluation, self._spec.evaluation.samples_per_problem
        limit = self._spec.task.completion_limit
        if self._sampler is not None:
            return self._sampler.sample(
                self._prompts,
                k=k,
                temperature=settings.temperature,
                limit=limit,
                seed=settings.seed,
            )
        sampler = Sampler(
            limit=limit,
            temperature=settings.temperature,
            top_p=self._top_p,
            ends=ends,
            padding=self._tokenizer.pad_token_id,
            shared=self._spec.generation.prefix_sharing,
        )
        names = [(self._problems[at // k].problem_id, at % k) for at in batch]
        seeds = seeds_by_name(settings.seed, names)
        return sampler.sample(model, [self._prompts[at // k] for at in batch], seeds)


def completion(
    task: TaskConfig,
    problem: Problem,
    made: tuple[str, Sequence[int]],
    ends: Collection[int],
    judged: Judged,
) -> Completion:
    """Return a completion of `problem`: `made` is its text and its tokens, of which those of `ends`
    end one."""
    text, ids = made
    return Completion(
        text=text,
        tokens=len(ids),
        ended=ids[-1] in ends,
        right=is_success(task, judged.score, problem),
        reward=judged.score,
        answer=judged.answer,
        reason=judged.reason,
    )


def answered(problem: Problem, completions: Iterable[Completion]) -> AnsweredProblem:
    """Return the problem with completions of it, as it is kept."""
    return shortened(
        AnsweredProblem(
            problem_id=problem.problem_id,
            prompt=problem.prompt,
            answer=problem.answer,
            completions=tuple(completions),
        )
    )


def pooled(parts: Sequence[Evaluation]) -> Evaluation:
    """The evaluation of a mixture: that of its parts together, problem after problem."""
    tokens = math.fsum(len(part.successes) * (part.completion_tokens or 0.0) for part in parts)
    successes = tuple(count for part in parts for count in part.successes)
    names = set.intersection(*(set(part.scores) for part in parts))
    return Evaluation(
        successes=successes,
        samples_per_problem=parts[0].samples_per_problem,
        completion_tokens=tokens / len(successes),
        scores={n: tuple(s for part in parts for s in part.scores[n]) for n in sorted(names)},
    )


def majority(right: Sequence[bool], answers: Sequence[str | None]) -> float:
    """1 if the commonest answer of a problem's samples is right, else 0 (majority@k): (k,) both.

    Right answers are one, however they are written; samples without an answer do not vote. Of
    equally many votes the answer that came first counts (Wang et al. 2022, arXiv 2203.11171).
    """
    cast = [("", ok) if ok else (answer, ok) for ok, answer in zip(right, answers, strict=True)]
    votes = Counter(vote for vote in cast if vote[0] is not None)
    return float(bool(votes) and votes.most_common(1)[0][0][1])


def _end_tokens(tokenizer: Tokenizer, model: Policy) -> list[int]:
    """Tokens that end an answer: those that end a rollout in training."""
    configured = model.generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    return sorted({end for end in [*ends, tokenizer.eos_token_id] if end is not None})


def base_identity(spec: RunSpec, problems: Sequence[Problem] | None = None) -> str:
    """Sha256 of what changes the evaluation before training.

    `problems`: those evaluated on, the task's held-out ones by default.
    """
    task = spec.task
    whole = identity(spec)
    inputs = {name: value for name, value in whole.items() if name not in _TRAINING}
    inputs["format"] = _FORMAT
    del inputs["evaluation"]["records_per_decade"]
    inputs["generation"].pop("importance_sampling_correction", None)
    # Where the weights lie does not matter, but which they are.
    inputs["model"].pop("path", None)
    inputs["weights"] = content_identity(spec.model)
    inputs["recipe"] = [getattr(spec.recipe, name) for name in _RECIPE]
    inputs["task"] = [
        task.kind,
        identity(task)[task.kind],
        task.data_seed,
        task.success_at,
        task.completion_limit,
    ]
    inputs["problems"] = [asdict(problem) for problem in problems or heldout_problems(task)]
    if spec.generation.name == "vllm":
        # How many sequences an engine holds decides with which others each is computed.
        limits = spec.vllm_max_num_seqs, spec.vllm_max_num_batched_tokens, spec.vllm_cache_bytes
        inputs["engine"] = limits
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
