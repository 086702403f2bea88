"""The log of a command that trains a run: its evaluations, and what it has spent by them.

Rollouts are the steps that it logs times n x B; tokens are those that it logs, or as planned; FLOPs
follow from the tokens.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isosweep.compute import Compute
from isosweep.config.importing import ImportConfig, columns_of
from isosweep.costs.flops import rollout_flops
from isosweep.errors import SettingError
from isosweep.importing.columns import USUAL_COMPUTE, Columns, find_columns, first_of
from isosweep.importing.readers import read_sources
from isosweep.importing.runs import ForeignRun, read_runs, valid_rows
from isosweep.plan.spec import RunSpec

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a run of `spec` has spent, by what its log says.

    `steps`: (rows,) ascending, and `tokens`, of prompts and completions so far: (rows,), None where
    no column has them.
    """

    spec: RunSpec
    steps: Floats
    tokens: Floats | None = None

    def at(self, step: int, seconds: float = 0.0) -> Compute:
        """Compute behind `step` updates; `seconds`: of wall time."""
        spec = self.spec
        rollouts = step * spec.completions_per_step
        lengths = spec.task.lengths
        total = rollouts * (lengths.prompt + lengths.completion)
        if self.tokens is not None and len(self.steps):
            steps, tokens = np.append(0.0, self.steps), np.append(0.0, self.tokens)
            total = float(np.interp(step, steps, tokens))
        # Of a rollout one token at least is sampled.
        completion = max(1.0, total / rollouts - lengths.prompt) if rollouts else 0.0
        prompts = min(total, rollouts * lengths.prompt)
        flops = rollout_flops(
            spec.model.architecture, np.array(lengths.prompt), np.array(completion), spec.passes
        )
        return Compute(
            generations=step,
            rollouts=rollouts,
            prompt_tokens=round(prompts),
            completion_tokens=round(total - prompts),
            prefill_flops=rollouts * float(flops.prefill),
            decode_flops=rollouts * float(flops.decode),
            old_policy_flops=rollouts * float(flops.old_policy),
            reference_flops=rollouts * float(flops.reference),
            training_flops=rollouts * float(flops.training),
            device_seconds=seconds * spec.devices,
        )


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a log says by now: the evaluations, None before the first; compute; its rows by step, as
    metrics of training."""

    run: ForeignRun | None
    spent: Spent
    metrics: list[tuple[int, dict[str, float]]]

    @property
    def last_step(self) -> int:
        """The newest step that it knows of."""
        return int(self.spent.steps[-1]) if len(self.spent.steps) else 0


def read_log(spec: RunSpec, log: str, before: Compute, resumed: int, *, ended: bool) -> Told:
    """What the command has logged. Raises SettingError for what cannot be read, or is not there.

    `before`: compute at step `resumed`, from which a log may count its tokens anew. `ended`:
    whether the command is over; before, a last line without an end may be half of one.
    """
    try:
        return _read_log(spec, log, before, resumed, ended)
    except SettingError as refused:
        # As this user calls them.
        raise SettingError(
            refused.setting.replace("import.", "trainer.columns.").replace("from", "trainer.log"),
            refused.value,
            refused.rule,
            refused.nearest.replace("import.", "trainer.columns."),
        ) from None


def _read_log(spec: RunSpec, log: str, before: Compute, resumed: int, ended: bool) -> Told:
    shared = {
        "n": float(spec.num_generations),
        "B": float(spec.problems_per_batch),
        "seed": float(spec.seed),
    }
    config = spec.trainer.columns or ImportConfig()
    config = replace(config, columns={**(config.columns or {}), **shared})
    halved = not ended and _ends_in_a_line(log)
    frame = read_sources([log], config, [])
    if halved or (not ended and _ends_in_a_line(log)):
        frame = frame.iloc[:-1]
    columns = _columns(frame, config)
    names = [str(name) for name in frame.columns]
    step = columns.found.get("step", columns_of(config)["step"])
    if not isinstance(step, str):
        raise SettingError("trainer.columns.step", step, "names the column of optimiser steps")
    steps = _numbers(frame, step)
    tokens = columns_of(config)["compute"] or first_of(USUAL_COMPUTE["tokens"], names)
    known = ~np.isnan(steps)
    counted = None
    if isinstance(tokens, str):
        counted = _numbers(frame, tokens)
        known &= ~np.isnan(counted)
    rows = np.flatnonzero(known)
    rows = rows[valid_rows(steps[rows])]
    order = rows[np.argsort(steps[rows], kind="stable")]
    if counted is not None:
        order = order[np.append(steps[order][1:] != steps[order][:-1], True)[: len(order)]]
    if counted is not None:
        counted = np.cumsum(counted[order]) if config.per_step else counted[order]
        own = steps[order] > resumed
        if own.any() and counted[own][0] < before.tokens:
            counted = np.where(own, counted + before.tokens, counted)
    spent = Spent(spec=spec, steps=steps[order], tokens=counted)
    found = _evaluations(frame, columns, config)
    return Told(run=found, spent=spent, metrics=_metrics(frame, step))


def _ends_in_a_line(log: str) -> bool:
    """Whether a file's last line has no end yet."""
    path = Path(log)
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() != b"\n"


def _columns(frame: "pandas.DataFrame", config: ImportConfig) -> Columns:
    """The log's columns; those of an evaluation only once there is one."""
    try:
        return find_columns(frame, config, "rollouts")
    except SettingError as refused:
        if refused.setting != "import.columns.reward":
            raise
        return find_columns(
            frame, replace(config, columns={**(config.columns or {}), "reward": 0.0}), "rollouts"
        )


def _evaluations(
    frame: "pandas.DataFrame", columns: Columns, config: ImportConfig
) -> ForeignRun | None:
    """The run's held-out evaluations; None before the first. The training reward is none."""
    reward = columns.found.get("reward")
    guessed = reward == "reward" and "reward" in columns.guessed
    if not columns.has("successes") and (not isinstance(reward, str) or guessed):
        return None
    scored = "successes" if columns.has("successes") else reward
    if not frame[scored].notna().any():
        return None
    own = {name: given for name, given in columns.found.items() if name not in ("run", "compute")}
    # One run, whatever the file is called, and compute is worked out here.
    found, _ = read_runs(frame, replace(columns, found=own), config, least=1)
    return found[0]


def _numbers(frame: "pandas.DataFrame", column: str) -> Floats:
    import pandas

    return np.array(pandas.to_numeric(frame[column], errors="coerce"), dtype=np.float64)


def _metrics(frame: "pandas.DataFrame", step: str) -> list[tuple[int, dict[str, float]]]:
    """Every row's numbers by column, by step."""
    numbers = frame.select_dtypes("number")
    rows = zip(_numbers(frame, step), numbers.to_dict("records"), strict=True)
    return [
        (int(at), {str(k): float(v) for k, v in row.items() if k != step and v == v})
        for at, row in rows
        if at == at
    ]
