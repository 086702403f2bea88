"""The evaluation before training, which all runs of a model share: taken once, read by the others.

It lies in `<sweeps_dir>/evaluations/<sha256>.json`, named by all that can change its numbers.
Beside it the process that takes it puts a claim. A claim is advice: whoever waits for it in vain
evaluates for itself, and a file is written whole or not at all, so no lock is relied on.
"""

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from isosweep.config.identity import identity
from isosweep.files import read_json, write_json
from isosweep.machine import process_alive
from isosweep.models.weights import content_identity
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation
from isosweep.tasks import Problem, heldout_problems

# 2: scores by name.
FORMAT_VERSION = 2
# How long a run waits for one that began before it. On devices of its own it would lose what is
# more: waiting saves the work of shared cores, and no time.
WAIT_S = 120.0
_POLL_S = 0.2
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
    """The stored evaluation of `path`, if there is one; `patient` says whether to go on waiting.

    It has a number of successes, up to `samples`, for each of `problems`.
    """

    path: Path
    patient: Callable[[], bool]
    problems: int
    samples: int

    def read(self) -> Evaluation | None:
        """The evaluation; None where none is stored, or the file is something else."""
        try:
            document = read_json(self.path)
            if document is None or document["version"] != FORMAT_VERSION:
                return None
            # A copy of another model's file lies under this name and says its own.
            if document["sha256"] != self.path.stem:
                return None
            stored = Evaluation.from_json(document)
        except (KeyError, TypeError, ValueError):
            return None
        mine = len(stored.successes), stored.samples_per_problem
        return stored if mine == (self.problems, self.samples) else None

    def wait(self) -> Evaluation | None:
        """The evaluation, once another process that takes it is done; None: take it oneself."""
        deadline = time.monotonic() + WAIT_S
        # Where nothing can be read or claimed, this run loses what it would have been spared.
        with suppress(OSError):
            while (stored := self.read()) is None:
                if self._claimed() or time.monotonic() > deadline or not self.patient():
                    return None
                time.sleep(_POLL_S)
            return stored
        return None

    def store(self, evaluation: Evaluation) -> None:
        """Write it for the others. A disk that is full costs them the evaluation, and no more."""
        named = {"version": FORMAT_VERSION, "sha256": self.path.stem}
        with suppress(OSError):
            write_json(self.path, {**named, **evaluation.to_json()})
        with suppress(OSError):
            self._claim_file.unlink()

    @property
    def _claim_file(self) -> Path:
        return self.path.with_suffix(".claim")

    def _claimed(self) -> bool:
        """Claim it, unless somebody has who may still be at it; whether it is claimed now."""
        claim = {"host": socket.gethostname(), "pid": os.getpid(), "unix_time": time.time()}
        try:
            # Of sweeps that are away nothing is made anew.
            self.path.parent.mkdir(exist_ok=True)
            with self._claim_file.open("x", encoding="utf-8") as file:
                file.write(json.dumps(claim))
        except FileExistsError:
            if self._alive():
                return False
            write_json(self._claim_file, claim)
        return True

    def _alive(self) -> bool:
        """Whether the claim may be somebody's: alive here, or recent and on another host."""
        try:
            claim = json.loads(self._claim_file.read_text(encoding="utf-8"))
            if claim["host"] == socket.gethostname():
                return process_alive(int(claim["pid"]))
            return bool(time.time() - claim["unix_time"] < WAIT_S)
        except FileNotFoundError:
            # Given up this moment.
            return True
        except (KeyError, TypeError, ValueError):
            # Not yet written whole; or never, by one that was killed.
            return time.time() - self._claim_file.stat().st_mtime < WAIT_S


def base_evaluation(
    spec: RunSpec,
    run: RunPaths,
    patient: Callable[[], bool],
    problems: Sequence[Problem] | None = None,
) -> BaseEvaluation:
    """The evaluation before training of `run`'s model, which other runs share.

    `problems`: as `base_identity`.
    """
    digest = base_identity(spec, problems)
    samples = spec.evaluation.samples_per_problem
    number = len(problems or heldout_problems(spec.task))
    return BaseEvaluation(run.base_evaluation(digest), patient, number, samples)
