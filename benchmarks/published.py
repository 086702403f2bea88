"""Planned over published: seconds of whole steps and of training, and peak memory.

    python benchmarks/published.py --check     # the table; status 1 where a goal is missed
    python benchmarks/published.py --fit       # the six constants of costs/efficiency.py again

`published.csv` has a row for each figure, with its source and the settings that it is planned
with; a row that does not count says why. Six constants are fitted to the logarithms of planned over
published, every source with the same weight; `left out` is a row's ratio by constants that were
fitted without its source. Rows of a trainer alone are planned with packed sequences, 2 a device, as
prime-rl's `--bench` makes them. Models and devices that conf/ lacks are in this file.
"""

import csv
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from frame import Goal, benchmark, number, table
from scipy.optimize import least_squares

from isosweep.config.axes import combinations
from isosweep.config.compose import config_of
from isosweep.config.sweep import SweepConfig
from isosweep.costs.activations import training_bytes
from isosweep.costs.efficiency import FITTED, Efficiency, Fitted, efficiency
from isosweep.costs.flops import rollout_flops
from isosweep.costs.memory import state_bytes
from isosweep.costs.timing import StepSeconds, step_seconds
from isosweep.plan.candidates import Candidates
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.spec import passes_of

GOALS = {
    "within": Goal("share of rows planned within 0.67 to 1.5 times", "at least", 0.75),
    "worst": Goal("times that the worst row is off", "at most", 2.5),
    "left_out_within": Goal("share within 0.67 to 1.5, source left out", "at least", 0.75),
    "left_out_worst": Goal("times that the worst row is off, source left out", "at most", 2.5),
}
# Seconds as it is.
QUICK: dict[str, bool] = {}
NEAR = 1.5
# Round numbers from before any fit, which keep a constant where rows say little of it; a factor
# of e away from them counts as this error of one row's logarithm.
ASSUMED = Fitted(kernels=0.4, attained=5e14, routed=0.5, read=0.6, engine=5e-5, answer=2e-3)
AWAY = 0.25
# Published shapes (config.json) and datasheets that conf/ has no file for.
MODELS = {
    "qwen3-32b": "qwen3-8b hidden_size=5120 num_layers=64 num_heads=64 intermediate_size=25600",
    "qwen3-235b-a22b": "qwen3-30b-a3b hidden_size=4096 num_layers=94 num_heads=64"
    " intermediate_size=12288 expert_intermediate_size=1536",
    "glm-4.5-air": "qwen3-30b-a3b hidden_size=4096 num_layers=46 num_heads=96 num_kv_heads=8"
    " intermediate_size=10944 vocab_size=151552 qk_norm=false expert_intermediate_size=1408"
    " shared_expert_intermediate_size=1408 num_dense_layers=1",
    "deepseek-7b": "llama-8b num_layers=30 num_kv_heads=32 intermediate_size=11008"
    " vocab_size=102400",
}
DEVICES = {
    "gb200": "b200 memory_gb=186 peak_flops=2.5e15",
    # RTX A6000: 309.7 TFLOP/s bfloat16 with sparsity, half of it dense.
    "a6000": "l40s memory_gb=48 peak_flops=1.548e14 memory_bandwidth=7.68e11",
}
ALL = (
    *("generation=vllm", "hardware.attention=flash_attention_2", "hardware.calibrated=false"),
    *("task=math", "recipe=grpo", "recipe.beta=0", "hardware.memory_reserve=0.05"),
    *("budget_unit=rollouts", "budget=1e6", "grid.seeds=[0]"),
    *("launcher=slurm", "launcher.max_parallel=1"),
    "++model.architecture.max_position_embeddings=null",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published figure, and what the planner says of it."""

    source: str
    what: str
    why_not: str
    seconds: float
    peak_gib: float | None
    part: str
    config: SweepConfig
    candidates: Candidates

    def planned(self, fitted: Fitted) -> float:
        """Seconds, with these constants."""
        config, hardware = self.config, self.config.run_hardware
        reached = efficiency(config.model.architecture, hardware, config.generation, fitted)
        phases = self._phases(reached)
        answers = self.candidates.completions / hardware.devices_per_run
        beside = reached.step_overhead_s + reached.answer_overhead_s * answers
        match self.part:
            case "step":
                taken = phases.total
            case "generation":
                taken = phases.generation
            case _:
                taken = phases.total - phases.generation - beside
        return float(taken[0, 0])

    def _phases(self, reached: Efficiency) -> StepSeconds:
        config, table = self.config, self.candidates
        n = np.array(config.grid.num_generations, dtype=float)
        learner = table.hardware_flops * config.recipe.updates_per_generation
        passes = passes_of(config, n[:, None])
        lengths = config.task.lengths
        flops = rollout_flops(config.model.architecture, lengths.prompt, lengths.completion, passes)
        learner -= table.completions * (flops.prefill + flops.decode)
        learner /= config.run_hardware.devices_per_run
        # What was run has fitted, whatever the plan says of it.
        concurrency = table.memory.concurrency
        fit = replace(
            table.memory,
            micro_batch=np.maximum(table.memory.micro_batch, 1),
            concurrency=np.where(concurrency > 0, concurrency, 256),
        )
        # Scoring and training together.
        both = np.array([np.zeros_like(learner), learner])
        return step_seconds(config, passes, table.completions, fit, both, reached)

    @property
    def planned_gib(self) -> float:
        """The trainer's peak, of one packed sequence."""
        config, task = self.config, self.config.task
        arch, recipe, hardware = config.model.architecture, config.recipe, config.hardware
        passes = training_bytes(
            arch, recipe, hardware, prompt=1.0, completion=float(task.completion_limit)
        )
        held = state_bytes(arch, recipe, hardware).total + passes.fixed + passes.per_completion
        return held / 2**30


def overrides(settings: Mapping[str, str], part: str) -> list[str]:
    """The settings of a row as the command line has them."""
    given = dict(settings)
    short = {name: given.pop(name, "") for name in ("n", "B", "prompt", "mean", "cap", "tokens")}
    devices = int(given.get("hardware.devices_per_run", "1"))
    if part == "trainer":
        sequence = short["tokens"]
        short |= {"n": str(2 * devices), "B": "1", "prompt": "1"}
        short |= {"mean": sequence, "cap": sequence}
        given |= {
            "generation.importance_sampling_correction": "false",
            "recipe.micro_batch": "1",
        }
    if devices > 1:
        given["hardware.sharding"] = "fsdp"
    if given.get("generation") == "transformers":
        given["hardware.attention"] = "sdpa"
    named = []
    for group, known in (("model", MODELS), ("hardware", DEVICES)):
        base, *changes = known.get(given[group], given[group]).split()
        given[group] = base
        place = "model.architecture" if group == "model" else group
        # `++`: some models of conf/ leave out what they do not have.
        named += [f"++{place}.{change}" for change in changes]
    return [
        *ALL,
        *(f"{name}={value}" for name, value in given.items()),
        *named,
        f"grid.num_generations=[{short['n']}]",
        f"grid.problems_per_batch=[{short['B']}]",
        f"task.prompt_tokens={short['prompt']}",
        f"task.completion_tokens={short['mean']}",
        f"task.max_completion_tokens={short['cap']}",
    ]


def rows() -> list[Row]:
    """All of published.csv."""
    found = []
    with (Path(__file__).parent / "published.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            settings = dict(one.split("=", 1) for one in line["settings"].split())
            config = config_of(overrides(settings, line["part"]))
            (candidates,) = enumerate_candidates(combinations(config))
            found.append(
                Row(
                    source=line["source"],
                    what=line["what"],
                    why_not=line["why_not"],
                    seconds=float(line["seconds"]),
                    peak_gib=float(line["peak_gib"]) if line["peak_gib"] else None,
                    part=line["part"],
                    config=config,
                    candidates=candidates,
                )
            )
    return found


def fit(counted: Sequence[Row]) -> Fitted:
    """The constants whose planned seconds are nearest to the published ones."""
    start = np.log([getattr(ASSUMED, one.name) for one in fields(Fitted)])
    sources = [row.source for row in counted]
    weights = np.array([sources.count(source) ** -0.25 for source in sources])

    def of(logs: np.ndarray) -> Fitted:
        names = [one.name for one in fields(Fitted)]
        return Fitted(**dict(zip(names, map(float, np.exp(logs)), strict=True)))

    def off(logs: np.ndarray) -> np.ndarray:
        fitted = of(logs)
        ratios = [np.log(row.planned(fitted) / row.seconds) for row in counted]
        return np.concatenate([weights * ratios, AWAY * (logs - start)])

    return of(least_squares(off, start, loss="soft_l1", f_scale=0.4).x)


def measure(options: Namespace) -> dict[str, float]:
    """Print the tables; how many rows are near, and how far the worst is off."""
    everything = rows()
    counted = [row for row in everything if not row.why_not]
    fitted = fit(counted) if options.fit else FITTED
    if options.fit:
        print({name: float(f"{value:.3g}") for name, value in vars(fitted).items()})
    without = {
        source: fit([row for row in counted if row.source != source])
        for source in dict.fromkeys(row.source for row in everything)
    }
    line = table("source", "row", "published, s", "planned, s", "ratio", "left out", "counts")
    ratios, left = {}, {}
    for row in everything:
        planned = row.planned(fitted)
        ratios[row.what] = planned / row.seconds
        left[row.what] = row.planned(without[row.source]) / row.seconds
        line(
            *(row.source, row.what, f"{row.seconds:.3g}", f"{planned:.3g}"),
            *(f"{ratios[row.what]:.2f}", f"{left[row.what]:.2f}", row.why_not or "yes"),
        )
    print()
    line = table("row", "peak published, GiB", "planned", "ratio")
    for row in everything:
        if row.peak_gib is not None:
            held = row.planned_gib
            line(row.what, row.peak_gib, number(held, ".1f"), number(held / row.peak_gib, ".2f"))
    print()
    figures: dict[str, float] = {}
    for name, values in (("", ratios), ("left_out_", left)):
        off = np.exp(np.abs(np.log([values[row.what] for row in counted])))
        figures |= {f"{name}within": float((off <= NEAR).mean()), f"{name}worst": float(off.max())}
    quarter = [left[row.what] for row in counted]
    low, high = np.quantile(1 / np.array(quarter), [0.125, 0.875])
    print(f"measured over planned, three quarters of rows left out: {low:.2f} to {high:.2f}")
    return figures


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, {"--fit": (False, "fit the constants again, and use them")})
