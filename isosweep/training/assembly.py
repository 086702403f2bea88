"""Puts an attempt's loop together: problems, books, policy, trainer, evaluator.

Importing this module imports the training stack.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from accelerate.utils import gather_object

from isosweep.config.evaluation_sets import on_all
from isosweep.difficulty.selection import load_selection
from isosweep.errors import RecordError
from isosweep.models.weights import content_identity
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.tasks import Problem, heldout_problems, problems_digest, training_problems
from isosweep.tasks.sets import problems_of_sets
from isosweep.tasks.stored import hold_problems
from isosweep.training.base_evaluation import base_identity
from isosweep.training.beside import Beside
from isosweep.training.checkpoints import Progress
from isosweep.training.evaluate import Evaluator
from isosweep.training.grpo import load_policy, make_stream, make_trainer
from isosweep.training.ledger import Ledger
from isosweep.training.loop import TrainingLoop
from isosweep.training.protocols import Tokenizer
from isosweep.training.trainer import CountedGRPOTrainer
from isosweep.training.vllm import VllmSampler, make_sampler
from isosweep.training.worker import Session


def make_loop(session: Session, directory: str, beside: Beside | None = None) -> TrainingLoop:
    """The loop of `session`, about to begin, with the policy in `directory`; `beside` samples for
    it.

    The attempt's first line is written, and the random states are those of the run's seed.
    """
    spec, run, rank = session.spec, session.attempt.run, session.rank
    further = _prepared(spec, run)
    if rank.leads:
        hold_problems(run, spec.task, further)
    progress = Progress(Ledger(spec), make_stream(spec), session.monitor)
    if session.start.checkpoint is not None:
        progress.restore(session.start.progress)
    recorded = session.reporter.started(session.start)
    torch.manual_seed(spec.seed)
    model, tokenizer = load_policy(spec, directory)
    checkpoints = run.attempt_checkpoints(session.attempt.number)
    trainer = make_trainer(
        spec,
        model,
        tokenizer,
        progress.ledger,
        progress.stream,
        checkpoints,
        further,
        beside,
    )
    if rank.count > rank.local:
        require_same_inputs(spec, directory, further)
    sampler = _heldout_sampler(spec, trainer, tokenizer, beside)

    def evaluator(on: RunSpec, problems: Sequence[Problem] | None = None) -> Evaluator:
        return Evaluator(
            on,
            tokenizer,
            sampler=sampler,
            problems=problems,
            base=run.base_evaluation(base_identity(on, problems)),
            rank=rank.number,
            ranks=rank.count,
            on_batch=session.reporter.progress,
        )

    asked = {name: heldout_problems(part) for name, part in spec.task.parts.items()} | further
    sets = {name: evaluator(on, asked[name]) for name, on in on_all(spec).items()}
    return TrainingLoop(session, progress, trainer, evaluator(spec), recorded, sets)


def _heldout_sampler(
    spec: RunSpec, trainer: CountedGRPOTrainer, tokenizer: Tokenizer, beside: Beside | None
) -> VllmSampler | Beside | None:
    """What samples held-out answers through an engine; None where transformers does, here."""
    if beside is None:
        return make_sampler(spec, trainer, tokenizer)
    return beside if spec.generation.name == "vllm" else None


def make_generator(
    spec: RunSpec, run: RunPaths, directory: str
) -> tuple[CountedGRPOTrainer, VllmSampler | None]:
    """A trainer that samples for others, with the policy in `directory`, and vLLM's sampler of
    held-out answers where that samples."""
    spec = replace(spec, devices=1)
    further = _prepared(spec, run)
    torch.manual_seed(spec.seed)
    model, tokenizer = load_policy(spec, directory)
    ledger, stream = Ledger(spec, generates=True), make_stream(spec)
    trainer = make_trainer(spec, model, tokenizer, ledger, stream, run.root, further)
    trainer.sample_only()
    return trainer, make_sampler(spec, trainer, tokenizer)


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
