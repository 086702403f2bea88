"""Does adaptive n beat uniform n at equal compute? The numbers of docs/study_allocation.md.

    python docs/studies/allocation.py known
    python docs/studies/allocation.py sweep SWEEP

`known` trains a policy of 33 parameters by GRPO, whose success rates are known exactly at every
step. `sweep` reads a trained `+experiment=study/allocation`: differences from uniform n, seed by
seed, at the sweep's budgets.

The known policy solves problem i with probability p_i = sigmoid(x_i w + b_i), with x_i a constant
and `FEATURES` normal numbers. Training and held-out problems share w and nothing else. Half of the
problems begin near 0.6, half near 0.02 (`--logits` has b of both). A step draws B problems in order
of epochs, n_i rollouts of each, k_i of them right, and moves w along the sum over rollouts of
advantages times gradients of log-probabilities. By GRPO's division that is
sqrt(k (n - k) (n - 1) / n) x_i for a group. The norm of w is at most `CAPACITY`. With
`--optimizer adam` w moves by Adam's rule.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import isosweep
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_metrics, read_records
from isosweep.tasks import heldout_problems
from isosweep.training.allocation import Knapsack, allocate
from isosweep.training.worker import spec_of

Floats = NDArray[np.float64]
Sizes = Callable[[Knapsack, Sequence[int], Sequence[float]], list[int]]

N, B, PROBLEMS, FEATURES, STEPS, CAPACITY = 8, 16, 256, 32, 150, 6.0
RATES = {"sgd": (0.125, 0.25, 0.5), "adam": (0.01, 0.02, 0.04)}
CONFIDENCE = 0.95


def interval(values: Sequence[float]) -> str:
    """Mean of paired differences and its 95% interval by Student's t."""
    mean, error = float(np.mean(values)), float(stats.sem(values))
    half = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"


def row(*cells: object) -> None:
    """Print a line of a table."""
    print(f"| {' | '.join(map(str, cells))} |")


# The known policy.


@dataclass(frozen=True)
class Arm:
    """A way to choose sizes, from what is known or from the true rates; `alike`: a problem weighs
    the same whatever its size."""

    name: str
    sizes: Sizes
    alike: bool = False

    def weights(self, n: Floats) -> Floats:
        """Of the groups in a step."""
        return N / n if self.alike else np.ones_like(n)


def _uniform(_: Knapsack, problems: Sequence[int], rates: Sequence[float]) -> list[int]:
    return [N] * len(problems)


def _estimated(known: Knapsack, problems: Sequence[int], rates: Sequence[float]) -> list[int]:
    return known.sizes(problems)


def _true(_: Knapsack, problems: Sequence[int], rates: Sequence[float]) -> list[int]:
    return allocate(rates, N)


UNIFORM = Arm("uniform", _uniform)
ARMS = (
    UNIFORM,
    Arm("knapsack", _estimated),
    Arm("knapsack, equal weights", _estimated, alike=True),
    Arm("true rates", _true),
    Arm("true rates, equal weights", _true, alike=True),
)


@dataclass(frozen=True)
class World:
    """`logits`: mean b of easy problems, and of hard ones; whose rule moves w; how many seeds."""

    logits: tuple[float, float]
    optimizer: str
    seeds: int

    @property
    def rates(self) -> tuple[float, ...]:
        """Learning rates that are tried."""
        return RATES[self.optimizer]


class Policy:
    """The known policy and its problems, training ones first."""

    def __init__(self, seed: int, world: World) -> None:
        self._world = world
        chance = np.random.default_rng(seed)
        everything = 2 * PROBLEMS
        features = chance.normal(0, FEATURES**-0.5, (everything, FEATURES))
        self.hard = np.arange(everything) % 2 == 1
        self.x = np.concatenate([np.full((everything, 1), 0.5), features], axis=1)
        self.b = chance.normal(np.where(self.hard, world.logits[1], world.logits[0]), 1.0)
        self.w = np.zeros(1 + FEATURES)
        self._first, self._second, self._moves = np.zeros_like(self.w), np.zeros_like(self.w), 0
        epochs = STEPS * B // PROBLEMS + 1
        self.order = [int(at) for _ in range(epochs) for at in chance.permutation(PROBLEMS)]

    def rates(self, problems: Any) -> Floats:
        """True success rates."""
        rates: Floats = 1 / (1 + np.exp(-self.x[problems] @ self.w - self.b[problems]))
        return rates

    def move(self, gradient: Floats, rate: float) -> None:
        """Move w along a gradient, as it is or by Adam's rule, within its norm."""
        self._moves += 1
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.001 * (gradient**2 - self._second)
        if self._world.optimizer == "adam":
            first = self._first / (1 - 0.9**self._moves)
            second = self._second / (1 - 0.999**self._moves)
            gradient = first / (np.sqrt(second) + 1e-8)
        self.w = self.w + rate * gradient
        self.w = self.w * min(1.0, CAPACITY / max(float(np.linalg.norm(self.w)), 1e-9))

    @property
    def heldout(self) -> tuple[float, float]:
        """Mean rate of held-out problems, and of the hard ones."""
        rates = self.rates(slice(PROBLEMS, None))
        return float(rates.mean()), float(rates[self.hard[PROBLEMS:]].mean())

    def gradient(self) -> Floats:
        """Of the mean rate of training problems by w."""
        rates, own = self.rates(slice(PROBLEMS)), self.x[:PROBLEMS]
        gradient: Floats = (rates * (1 - rates)) @ own / PROBLEMS
        return gradient


def scaled(k: Any, n: Any) -> Any:
    """A group's advantages times gradients of log-probabilities, of its x."""
    return np.sqrt(k * (n - k) * (n - 1) / n)


@dataclass(frozen=True)
class Learned:
    """Held-out rates after each step (steps,), of all and of the hard half; means over steps of the
    shares of rollouts and of groups with signal."""

    heldout: Floats
    hard: Floats
    rollouts: float
    groups: float


def learned(
    arm: Arm,
    rate: float,
    seed: int,
    world: World,
    look: Callable[[Policy, Knapsack, list[int]], None] | None = None,
) -> Learned:
    """What the known policy learns; every arm meets the same problems in the same order. `look` is
    shown each step's problems before it is taken."""
    policy, known = Policy(seed, world), Knapsack(N)
    seen, heldout = [], []
    for step in range(STEPS):
        drawn = policy.order[step * B : (step + 1) * B]
        if look is not None:
            look(policy, known, drawn)
        p = policy.rates(drawn)
        n = np.array(arm.sizes(known, drawn, p.tolist()))
        k = np.random.default_rng((seed, step)).binomial(n, p)
        known.scored(
            (at, [True] * int(right) + [False] * int(size - right))
            for at, right, size in zip(drawn, k, n, strict=True)
        )
        policy.move((scaled(k, n) * arm.weights(n)) @ policy.x[drawn] / (N * B), rate)
        signal = (k > 0) & (k < n)
        seen.append(((n * signal).sum() / n.sum(), signal.mean()))
        heldout.append(policy.heldout)
    shares, reached = np.mean(seen, axis=0), np.array(heldout)
    return Learned(reached[:, 0], reached[:, 1], float(shares[0]), float(shares[1]))


def show_learned(world: World) -> None:
    """Print what every arm learns, at every learning rate."""
    runs = {
        (arm, rate): [learned(arm, rate, seed, world) for seed in range(world.seeds)]
        for arm in ARMS
        for rate in world.rates
    }
    means = {key: np.mean([run.heldout for run in own], axis=0) for key, own in runs.items()}
    row("rate", "arm", "rollouts with signal", "groups", "held-out", "less uniform", "speed-up")
    row(*["---"] * 7)
    for rate in world.rates:
        for arm in ARMS:
            own, plain = runs[arm, rate], runs[UNIFORM, rate]
            shares = [np.mean([run.rollouts for run in own]), np.mean([run.groups for run in own])]
            cells = [f"{rate:g}", arm.name, *(f"{share:.3f}" for share in shares)]
            cells.append(f"{means[arm, rate][-1]:.3f}")
            if arm is not UNIFORM:
                pairs = zip(own, plain, strict=True)
                cells.append(interval([float(a.heldout[-1] - u.heldout[-1]) for a, u in pairs]))
                there = np.flatnonzero(means[arm, rate] >= means[UNIFORM, rate][-1])
                cells.append(f"{STEPS / (there[0] + 1):.2f}" if len(there) else "none")
            row(*cells)
    best = {arm: max(world.rates, key=lambda rate: float(means[arm, rate][-1])) for arm in ARMS}
    print("\neach at its best rate, less uniform at its own:")
    for arm in ARMS[1:]:
        pairs = zip(runs[arm, best[arm]], runs[UNIFORM, best[UNIFORM]], strict=True)
        gaps = [float(a.heldout[-1] - u.heldout[-1]) for a, u in pairs]
        print(f"- {arm.name}, rate {best[arm]:g} and {best[UNIFORM]:g}: {interval(gaps)}")


def _moments(n: int, p: float) -> tuple[float, float]:
    """Mean of `scaled`, and of its square, of n rollouts at rate p."""
    k = np.arange(n + 1)
    chances, made = stats.binom.pmf(k, n, p), scaled(k, n)
    return float(chances @ made), float(chances @ made**2)


def show_efficiency(world: World) -> None:
    """Print what a step of each arm is worth whatever the learning rate, next to uniform's.

    Along g, of which E[g d] is in the direction of the true gradient d, a step of the best length
    gains in proportion to E[g d]^2 / E[g^2]. Both are exact, at every step of uniform runs after
    their first epoch; the ratio is of their means over steps.
    """
    found: dict[Arm, list[tuple[float, float, float]]] = {arm: [] for arm in ARMS}
    for seed in range(world.seeds):
        sums = {arm: np.zeros(2) for arm in ARMS}

        def look(policy: Policy, known: Knapsack, drawn: list[int], sums: Any = sums) -> None:
            if len(known.to_json()) < PROBLEMS:
                return
            p, x, along = policy.rates(drawn), policy.x[drawn], policy.gradient()
            for arm in ARMS:
                n = np.array(arm.sizes(known, drawn, p.tolist()))
                pairs = zip(n, p, strict=True)
                first, second = np.array([_moments(int(m), float(rate)) for m, rate in pairs]).T
                weights = arm.weights(n)
                mean, spread = first * weights @ x, (second - first**2) * weights**2
                sums[arm] += mean @ along, mean @ mean + spread @ (x**2).sum(1)

        learned(UNIFORM, world.rates[0], seed, world, look)
        for arm, (gained, squared) in sums.items():
            plain = sums[UNIFORM]
            worth = (gained / plain[0]) ** 2 / (squared / plain[1])
            found[arm].append((worth - 1, gained / plain[0] - 1, squared / plain[1] - 1))
    print("\nat any learning rate, relative to uniform:")
    row("arm", "worth of a step", "E[g d]", "E[g^2]")
    row(*["---"] * 4)
    for arm in ARMS[1:]:
        row(arm.name, *(interval(column) for column in zip(*found[arm], strict=True)))


# The sweep.


def show_sweep(sweep: Path) -> None:
    """Print differences of held-out reward from uniform n, and what the groups were."""
    opened = isosweep.open(sweep)
    found = {
        (str(run.setting), int(run.seed)): RunPaths(sweep.parent / "runs" / run.run_id)
        for run in opened.runs.itertuples()
    }
    settings = list(dict.fromkeys(setting for setting, _ in found))
    seeds = sorted({seed for _, seed in found})
    budgets = [float(b) for b in sorted(set(opened.cells.query("reading == 'exact'").budget))]
    row("budget (FLOPs)", "setting", "steps", "held-out", "less uniform", "easy half", "hard half")
    row(*["---"] * 7)
    for budget in budgets:
        at = {key: _at(run, budget) for key, run in found.items()}
        for setting in settings:
            own = [at[setting, seed] for seed in seeds]
            cells = [f"{budget:.3g}", setting, f"{np.mean([step for step, _ in own]):.0f}"]
            cells.append(f"{np.mean([rewards.mean() for _, rewards in own]):.3f}")
            for half in (slice(None), slice(0, None, 2), slice(1, None, 2)):
                gaps = [
                    float(at[setting, seed][1][half].mean() - at["uniform", seed][1][half].mean())
                    for seed in seeds
                ]
                cells.append("" if setting == "uniform" else interval(gaps))
            row(*cells)
    print()
    for setting in settings:
        lines = [
            line
            for (name, _), run in found.items()
            if name == setting
            for line in read_metrics(run.metrics, run.records)
        ]
        _show_groups(setting, lines)


def _at(run: RunPaths, budget: float) -> tuple[int, Floats]:
    """The step of the record nearest to `budget`, and the share solved of each held-out problem,
    easy ones and hard ones in turn."""
    task = spec_of(run).task
    levels = [problem.level for problem in heldout_problems(task)]
    records = read_records(run.records).records
    nearest = min(records, key=lambda record: abs(record.compute.flops - budget))
    order = np.argsort(levels, kind="stable").reshape(2, -1).T.ravel()
    return nearest.step, np.array(nearest.successes)[order] / nearest.samples_per_problem


def _show_groups(setting: str, lines: Iterable[dict[str, Any]]) -> None:
    kept = list(lines)
    means = {
        name: float(np.mean([line[name] for line in kept]))
        for name in (
            *("zero_variance_share", "zero_variance_rollout_share"),
            *("group_size_min", "group_size_max", "group_size_sd"),
        )
        if all(name in line for line in kept)
    }
    print(f"{setting}: " + ", ".join(f"{name} {mean:.3g}" for name, mean in means.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    known = parts.add_parser("known")
    known.add_argument("--seeds", type=int, default=20)
    known.add_argument("--logits", type=float, nargs=2, default=(0.4, -4.0), metavar="B")
    known.add_argument("--optimizer", choices=RATES, default="sgd")
    parts.add_parser("sweep").add_argument("sweep", type=Path)
    chosen = parser.parse_args()
    if chosen.part == "known":
        world = World(tuple(chosen.logits), chosen.optimizer, chosen.seeds)
        show_learned(world)
        show_efficiency(world)
    else:
        show_sweep(chosen.sweep)
