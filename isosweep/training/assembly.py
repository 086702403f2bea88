"""Puts an attempt's loop together: problems, policy, trainer, books, evaluators.

Importing this module imports the training stack.
"""

import math
import socket
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from isosweep.compute import Compute
from isosweep.config.base import replaced
from isosweep.config.evaluation import on_all
from isosweep.difficulty.selection import load_selection
from isosweep.errors import RecordError, SettingError
from isosweep.models.prompts import prompt_tokens, stop_tokens
from isosweep.models.weights import content_identity
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.tasks import Problem, heldout_problems, problems_digest, training_problems
from isosweep.tasks.sets import hold_problems, problems_of_sets
from isosweep.training.arguments import adapters, trl_arguments
from isosweep.training.evaluate import Evaluator, base_identity
from isosweep.training.generator import Generator
from isosweep.training.loop import TrainingLoop
from isosweep.training.policy import keep_soft_cap, load_policy
from isosweep.training.sampling import Policy, Tokenizer
from isosweep.training.session import Session
from isosweep.training.trainer import SweepTrainer
from isosweep.training.trl_fsdp import sharded_reference
from isosweep.training.vllm import (
    VllmSampler,
    compute_as_with_engine,
    make_sampler,
    vllm_engine,
)


def make_loop(session: Session, directory: str, beside: Generator | None = None) -> TrainingLoop:
    """The loop of `session`, about to begin, with the policy in `directory`; `beside` samples for
    it.

    The random states are those of the run's seed.
    """
    spec, run, rank = session.spec, session.attempt.run, session.rank
    further = _prepared(spec, run)
    if rank.leads:
        hold_problems(run, spec.task, further)
    torch.manual_seed(spec.seed)
    policy = load_policy(spec, directory)
    checkpoints = run.attempt_checkpoints(session.attempt.number)
    trainer = make_trainer(spec, policy, checkpoints, further, beside)
    if session.start.checkpoint is not None:
        progress = session.start.progress
        trainer.ledger.spent = Compute(**progress["compute"])
        trainer.stream.restore(progress["stream"])
        trainer.queue.restore(session.start.checkpoint)
    if rank.count > rank.per_node:
        require_same_inputs(spec, directory, further)
    _, tokenizer = policy
    # None where transformers samples, in this process.
    sampler: VllmSampler | Generator | None = None
    if spec.generation.name == "vllm":
        sampler = make_sampler(spec, trainer) if beside is None else beside

    def evaluator(
        on: RunSpec, problems: Sequence[Problem] | None = None, keep: int = 0
    ) -> Evaluator:
        return Evaluator(
            on,
            tokenizer,
            sampler=sampler,
            problems=problems,
            base=run.base_evaluation(base_identity(on, problems)),
            rank=rank,
            on_batch=session.reporter.progress,
            keep=keep,
        )

    asked = {name: heldout_problems(part) for name, part in spec.task.parts.items()} | further
    parts, keep = spec.task.parts, spec.evaluation.keep_completions
    # A mixture is evaluated part by part.
    of_part = math.ceil(keep / max(1, len(parts)))
    sets = {
        name: evaluator(on, asked[name], of_part if name in parts else 0)
        for name, on in on_all(spec).items()
    }
    return TrainingLoop(session, trainer, evaluator(spec, keep=keep), sets)


def make_generator(
    spec: RunSpec, run: RunPaths, directory: str
) -> tuple[SweepTrainer, VllmSampler | None]:
    """A trainer that samples for others, with the policy in `directory`, and vLLM's sampler of
    held-out answers where that samples."""
    spec = replaced(spec, devices=1)
    further = _prepared(spec, run)
    torch.manual_seed(spec.seed)
    policy = load_policy(spec, directory)
    trainer = make_trainer(spec, policy, run.root, further, generates=True)
    # Log-probabilities are computed in the precision of training, which is never begun.
    trainer.accelerator.prepare_model(trainer.model, evaluation_mode=True)
    trainer.model.train()
    return trainer, make_sampler(spec, trainer)


def make_trainer(
    spec: RunSpec,
    policy: tuple[Policy, Tokenizer],
    checkpoints: Path,
    further: Mapping[str, Sequence[Problem]] | None = None,
    beside: Generator | None = None,
    *,
    generates: bool = False,
) -> SweepTrainer:
    """The trainer of a run's `policy`, which writes `checkpoints`.

    `further`: the problems of the run's further evaluation sets, which an engine has to have room
    for. `beside` samples for the trainer, with the run's engine; one that `generates` is there.
    """
    model, tokenizer = policy
    problems = training_problems(spec.task)

    def read(asked: Sequence[Problem]) -> list[list[int]]:
        return [prompt_tokens(tokenizer, problem, spec.model) for problem in asked]

    prompts = read(problems)
    answered = [(prompts, spec.task), (read(heldout_problems(spec.task)), spec.task)]
    answered += [(read(asked), on_all(spec)[name].task) for name, asked in (further or {}).items()]
    context = max(max(map(len, each)) + task.completion_limit for each, task in answered)
    if beside is not None and spec.generation.name == "vllm":
        compute_as_with_engine(spec)
    engine = vllm_engine(spec) if beside is None else nullcontext()
    ends = stop_tokens(spec.generation, spec.model, tokenizer)
    arguments = trl_arguments(spec, context, ends, engine=beside is None)
    try:
        args = GRPOConfig(**arguments)
    except (TypeError, ValueError) as error:
        if not spec.recipe.trl:
            raise
        raise SettingError("recipe.trl", spec.recipe.trl, f"TRL refuses it: {error}") from None
    with engine, sharded_reference():
        trainer = SweepTrainer(
            spec,
            problems,
            prompts,
            generates=generates,
            model=model,
            args=args,
            # TRL asks for a dataset; which problems come next is the stream's to say.
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=tokenizer,
            peft_config=adapters(spec),
        )
    if beside is not None:
        # TRL asks this where the loss corrects for an engine's log-probabilities.
        trainer.use_vllm = spec.generation.name == "vllm"
        trainer.queue.sample_by(beside)
    if trainer.ref_model is not None:
        keep_soft_cap(trainer.ref_model)
    trainer.args.output_dir = str(checkpoints)
    # metrics.jsonl has every step's metrics.
    trainer.remove_callback(PrinterCallback)
    return trainer


def _prepared(spec: RunSpec, run: RunPaths) -> dict[str, list[Problem]]:
    """The problems of the run's further evaluation sets, once this process can draw the others."""
    if spec.device == "cpu":
        torch.set_num_threads(1)
    for task in (spec.task, *(on.task for on in on_all(spec).values())):
        load_selection(run, task)
    return problems_of_sets(spec, training_problems(spec.task))


def require_same_inputs(
    spec: RunSpec, directory: str, further: Mapping[str, Sequence[Problem]]
) -> None:
    """Raise RecordError where nodes have other weights than the first, or draw other problems; to
    be called by all processes.

    `directory`: where the weights lie, `further`: the problems of further evaluation sets.
    """
    own = {
        "problems": problems_digest(spec.task, further),
        # A snapshot's directory is named by its revision.
        "weights": str([Path(directory).name, *content_identity(spec.model)]),
    }
    places = gather_object([(socket.gethostname(), own)])
    leader, expected = places[0]
    for host, found in places:
        for what in own:
            if found[what] != expected[what]:
                raise RecordError(
                    f"{spec.run_id}: {host} has other {what} than {leader}. All nodes of a run "
                    "need the same data and models: put both on a file system that they share"
                )
