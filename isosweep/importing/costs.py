"""FLOPs of runs whose tokens are known, by the cost model of plans. Pure."""

from dataclasses import replace

import numpy as np

from isosweep.config.architecture import Architecture
from isosweep.costs.flops import Passes, rollout_flops
from isosweep.errors import SettingError
from isosweep.importing.runs import ForeignRun


def in_flops(run: ForeignRun, arch: Architecture, prompt: float | None) -> ForeignRun:
    """The run with its tokens as FLOPs.

    Given: rollouts = n B T, and the mean length of one is tokens / rollouts, of which `prompt` are
    the prompt's. Solve: FLOPs = rollouts x those of one (`costs.flops.rollout_flops`), sampled once
    and used for one update. Raises SettingError where the prompt is not known, or longer than that.
    """
    if prompt is None:
        rule = "is not given, and FLOPs of a rollout depend on its prompt's length"
        raise SettingError("import.prompt_tokens", "null", rule, "import.prompt_tokens=NUMBER")
    past = run.steps > 0
    rollouts = run.steps[past] * float(run.num_generations * run.problems_per_batch)
    completion = run.compute[past] / rollouts - prompt
    if (completion < 1).any():
        rule = (
            f"rollouts of run {run.name} have {float(completion.min()) + prompt:.3g} tokens in all"
        )
        raise SettingError("import.prompt_tokens", f"{prompt:g}", rule)
    compute = np.zeros(len(run.steps))
    lengths = np.full(len(rollouts), prompt)
    compute[past] = rollouts * rollout_flops(arch, lengths, completion, Passes()).total
    return replace(run, compute=compute)
