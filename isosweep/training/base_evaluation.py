"""The evaluation before training, which all runs of a model share: taken once, read by the others.

It lies in `<sweeps_dir>/evaluations/<sha256>.json`, named by all that can change its numbers. Runs
that begin at the same time each take it, with the same numbers.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from isosweep.config.identity import identity
from isosweep.files import read_json, write_json
from isosweep.models.weights import content_identity
from isosweep.plan.spec import RunSpec
from isosweep.store.records import Evaluation
from isosweep.tasks import Problem, heldout_problems

# Of what is stored: part of its name.
_FORMAT = 3
# Of a run's identity, what acts in training only.
_TRAINING = (
    *("num_generations", "problems_per_batch", "seed", "learning_rate", "micro_batch"),
    *("recipe", "task"),
)
# Of the recipe: adapters change the precision that the policy is held in.
_RECIPE = ("lora_rank", "cast_lm_head_to_fp32")


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
    kind = task.mixture_identity or asdict(task)[task.kind]
    judged = {name: value for name, value in kind.items() if name not in ("path", "directory")}
    inputs["task"] = [task.kind, judged, task.data_seed, task.success_at, task.completion_limit]
    inputs["problems"] = [asdict(problem) for problem in problems or heldout_problems(task)]
    if spec.generation.name == "vllm":
        # How many sequences an engine holds decides with which others each is computed.
        limits = spec.vllm_max_num_seqs, spec.vllm_max_num_batched_tokens, spec.vllm_cache_bytes
        inputs["engine"] = limits
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def read_evaluation(path: Path) -> Evaluation | None:
    """The evaluation stored there; None where none can be read."""
    with suppress(KeyError, TypeError, ValueError, OSError):
        document = read_json(path)
        return None if document is None else Evaluation.from_json(document)
    return None


def store_evaluation(path: Path, evaluation: Evaluation) -> None:
    """Write it for the other runs. A disk that is full costs them the evaluation, and no more."""
    with suppress(OSError):
        # Of sweeps that are away nothing is made anew.
        path.parent.mkdir(exist_ok=True)
        write_json(path, evaluation.to_json())
