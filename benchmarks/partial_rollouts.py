"""What sampling on through an update of the weights would save, and how it would mix versions.

    python benchmarks/partial_rollouts.py --check

Simulated, not measured: a generator and a trainer by the planner's times, for published lengths of
answers. `barrier` is generation.overlap=true; `queue` lets up to 4 generations wait, each by the
weights of one step; `partial` begins an answer where one has ended and takes new weights at every
update, in the middle of answers (PipelineRL, arXiv 2509.19128). The trainer takes as long as the
partial generator does, so that neither of the two would wait.
"""

from argparse import Namespace
from dataclasses import dataclass

import numpy as np
from frame import Goal, benchmark, table

from isosweep.config.hydra import config_of
from isosweep.config.task import Lengths
from isosweep.costs.overlap import paced
from isosweep.costs.padding import longest_spread, quantile_of
from isosweep.costs.timing import sampling
from isosweep.plan.spec import reached

GOALS = {
    "planned": Goal("times that the planned step is off the simulated one", "at most", 1.1),
}
QUICK = {"steps": 100}
# Name, model, answers of an engine, mean prompt, mean answer and limit; of which published step.
CASES = (
    ("GSM8K, 1.5B", "qwen-1.5b", 128, 120, 290, 1024),
    ("OpenMath, 8B", "llama-8b", 256, 127, 1123, 4096),
    ("OpenMath, 30B-A3B", "qwen3-30b-a3b", 256, 103, 3201, 4096),
    ("ScaleRL's limit, 8B", "qwen3-8b", 96, 150, 7000, 14336),
    ("DAPO, 7B, 28k limit", "qwen-7b", 256, 150, 2000, 28672),
)
LAGS = (1, 4)


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Shares of answers and of tokens: `answers` sampled by several versions of the policy, and
    their `tokens`; `late`: tokens that another version sampled than the answer's first; `versions`:
    mean number of an answer."""

    answers: float
    tokens: float
    late: float
    versions: float


def drawn(lengths: Lengths, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Lengths of answers, by the distribution that the planner assumes."""
    return np.ceil(quantile_of(lengths, rng.random(shape)))


def position_seconds(model: str, lengths: Lengths, most: int) -> np.ndarray:
    """Seconds to decode one position of 0 to `most` answers at once: (most + 1,)"""
    config = config_of([f"model={model}", "hardware=h100", "generation=vllm", "budget=1e20"])
    cached = Lengths(prompt=lengths.prompt + lengths.completion / 2, completion=2.0, longest=2.0)
    together = np.arange(1, most + 1)
    one = sampling(
        config.model.architecture,
        config.hardware,
        config.generation,
        cached,
        rollouts=together.astype(float),
        concurrency=together,
        prefill_flops=0.0,
    )
    return np.concatenate([[0.0], one.seconds(reached(config))])


def generation_seconds(answers: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Seconds of each generation, whose answers begin together: (generations,)"""
    ordered = np.sort(answers, axis=1)
    begun = np.concatenate([np.zeros((len(ordered), 1)), ordered[:, :-1]], axis=1)
    alive = position[np.arange(answers.shape[1], 0, -1)]
    return ((ordered - begun) * alive).sum(axis=1)


def mixed(answers: np.ndarray, slots: int, positions: float, rng: np.random.Generator) -> Mixed:
    """What answers that are sampled one after another in `slots` become, if the weights change
    every `positions`; `answers`: (slots, answers of one)."""
    first = rng.random((slots, 1)) * positions
    begin = first + np.concatenate([np.zeros((slots, 1)), np.cumsum(answers, 1)[:, :-1]], axis=1)
    end = begin + answers
    # Those that began before all slots had ended one count for more than they are.
    settled = begin > 2 * answers.max()
    settled &= end < end[:, -1].min()
    begin, end, length = begin[settled], end[settled], answers[settled]
    versions = 1 + np.floor(end / positions) - np.floor(begin / positions)
    late = np.maximum(end - (np.floor(begin / positions) + 1) * positions, 0)
    several = versions > 1
    return Mixed(
        answers=float(several.mean()),
        tokens=float(length[several].sum() / length.sum()),
        late=float(late.sum() / length.sum()),
        versions=float(versions.mean()),
    )


def steps_taken(generating: np.ndarray, learning: float, lag: int) -> float:
    """Mean seconds of a step if `lag` generations may wait, from the seconds of each: (steps,)

    Generation s takes the weights of step s, and step s + lag trains on it. Given: the ends of
    generations and steps,

        sampled[s] = max(sampled[s - 1], trained[s - 1]) + generating[s]
        trained[s] = max(trained[s - 1], sampled[s - lag]) + learning
    """
    sampled = trained = 0.0
    ends = [0.0] * lag
    for seconds in generating:
        sampled = max(sampled, trained) + float(seconds)
        ends.append(sampled)
        trained = max(trained, ends[-1 - lag]) + learning
    return trained / len(generating)


def measure(options: Namespace) -> dict[str, float]:
    """Print both tables; how far the plan's time of a step is off the simulated one."""
    rng = np.random.default_rng(0)
    off, rows = [], []
    line = table("answers", "mean / limit", "partial, s", "barrier", "queue of 1", "queue of 4")
    for name, model, count, prompt, mean, limit in CASES:
        lengths = Lengths(prompt=float(prompt), completion=float(mean), longest=float(limit))
        position = position_seconds(model, lengths, count)
        answers = drawn(lengths, (options.steps, count), rng)
        partial = answers.mean() * float(position[-1])
        generations = generation_seconds(answers, position)
        barrier = np.maximum(generations, partial).mean()
        spread = longest_spread(lengths, np.array([float(count)])) * generations.mean() / limit
        (planned,) = paced(np.array([generations.mean()]), np.array([partial]), spread)
        off.append(max(planned / barrier, barrier / planned))
        queued = [steps_taken(generations, partial, lag) / partial for lag in LAGS]
        line(
            *(f"{count} x {name}", f"{mean:,} / {limit:,}", f"{partial:.3g}"),
            *(f"{each:.2f}x" for each in (barrier / partial, *queued)),
        )
        each = drawn(lengths, (count, max(60, 6 * limit // mean)), rng)
        rows.append((name, mixed(each, count, float(mean), rng)))
    print()
    line = table(
        "answers", "of several versions", "their tokens", "tokens by a later one", "versions"
    )
    for name, of in rows:
        shares = (f"{share:.0%}" for share in (of.answers, of.tokens, of.late))
        line(name, *shares, f"{of.versions:.1f}")
    print()
    return {"planned": float(max(off))}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, {"--steps": (400, "generations of each case")})
