"""The evaluation before training, which all runs of a model share: taken once, read by the others.

It lies in `<sweeps_dir>/evaluations/<sha256>.json`, named by all that can change its numbers. Runs
that begin at the same time each take it, with the same numbers.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from isosweep.config.identity import identity
from isosweep.files import read_json, write_json
from isosweep.models.weights import content_identity
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation
from isosweep.tasks import Problem, heldout_problems

# 2: scores by name.
FORMAT_VERSION = 2
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


@dataclass(frozen=True)
class BaseEvaluation:
    """The stored evaluation of `path`, if there is one.

    It has a number of successes, up to `samples`, for each of `problems`.
    """

    path: Path
    problems: int
    samples: int

    def read(self) -> Evaluation | None:
        """The evaluation; None where none can be read, or the file is something else."""
        try:
            document = read_json(self.path)
            if document is None or document["version"] != FORMAT_VERSION:
                return None
            # A copy of another model's file lies under this name and says its own.
            if document["sha256"] != self.path.stem:
                return None
            stored = Evaluation.from_json(document)
        except (KeyError, TypeError, ValueError, OSError):
            return None
        mine = len(stored.successes), stored.samples_per_problem
        return stored if mine == (self.problems, self.samples) else None

    def store(self, evaluation: Evaluation) -> None:
        """Write it for the others. A disk that is full costs them the evaluation, and no more."""
        named = {"version": FORMAT_VERSION, "sha256": self.path.stem}
        with suppress(OSError):
            # Of sweeps that are away nothing is made anew.
            self.path.parent.mkdir(exist_ok=True)
            write_json(self.path, {**named, **evaluation.to_json()})


def base_evaluation(
    spec: RunSpec, run: RunPaths, problems: Sequence[Problem] | None = None
) -> BaseEvaluation:
    """The evaluation before training of `run`'s model, which other runs share.

    `problems`: as `base_identity`.
    """
    digest = base_identity(spec, problems)
    samples = spec.evaluation.samples_per_problem
    number = len(problems or heldout_problems(spec.task))
    return BaseEvaluation(run.base_evaluation(digest), number, samples)
