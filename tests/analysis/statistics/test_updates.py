"""What more updates on each rollout save and cost, with planted laws."""

import csv
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from isosweep import words
from isosweep.analysis.arrays import FloatArray
from isosweep.analysis.curves import Curve
from isosweep.analysis.load import load_sweep
from isosweep.analysis.pages.comparison import summarise, write_comparison
from isosweep.analysis.statistics.across import Parameter, Unidentified
from isosweep.analysis.statistics.compare import compare
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.statistics.needs import (
    Amount,
    BestBatch,
    Need,
    SumLaw,
    find_best_batch,
    find_need,
    find_sum,
)
from isosweep.analysis.statistics.updates import JOINT, Needs, find_needs
from isosweep.files import write_json
from tests.analysis.statistics.planted import CONFIG, RUN, compared, curve_of, known
from tests.analysis.sweeps import BUDGETS, RewardAt, make_plan, paths_in, write_sweep

UPDATES = (1, 2, 4)
# Passes over each generation, its parts, and so the updates that it serves.
SPLIT: dict[Amount, Sequence[float]] = {
    "iterations": (1, 1, 2, 4),
    "mini_batches": (1, 2, 1, 1),
    "updates": (1, 2, 2, 4),
}


def runs(
    saving: float,
    rng: np.random.Generator,
    *,
    noise: float = 0.01,
    updates: Sequence[float] = UPDATES,
) -> list[dict[int, Curve]]:
    """Curves (updates,) by seed, by a sigmoid in rollouts, whose middle U updates bring to
    U^-saving; luck of a seed at all U, and of each run."""
    luck = 0.15 * rng.standard_normal(3)
    drawn = np.concatenate([[0], np.unique(np.geomspace(4, 1000, 15).round())]).astype(int)
    rollouts = drawn * RUN.num_generations * RUN.problems_per_batch
    curves = []
    for number in updates:
        of = {}
        for seed, own in enumerate(luck):
            middle = math.log(3000) - saving * math.log(number) + own
            middle += 0.1 * rng.standard_normal()
            rise = 1 / (1 + np.exp(1.5 * (middle - np.log(np.maximum(rollouts, 1e-9)))))
            reward = 0.2 + 0.5 * rise + noise * rng.standard_normal(len(drawn))
            of[seed] = curve_of(rollouts * (1.0 + number), reward, steps=drawn)
        curves.append(of)
    return curves


def of_updates(updates: Sequence[float]) -> dict[Amount, FloatArray]:
    return {"updates": np.log2(np.array(updates, float))}


def test_intervals_of_what_a_doubling_saves_hold_it_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(3)
    held, costs = [], []
    for _ in range(100):
        saving = rng.uniform(0, 0.9)
        found = find_needs({"updates": UPDATES}, runs(saving, rng), 0.02, 0.9)
        if isinstance(found, Unidentified):
            continue
        assert 0.25 < found.threshold < 0.45
        rollouts, compute = (of.factors["updates"] for of in (found.rollouts, found.compute))
        held.append(rollouts.low <= 2**-saving <= rollouts.high)
        # One forward and backward pass for each update, and one for sampling: 1 + U.
        costs.append(compute.median / rollouts.median)
    assert len(held) >= 93
    assert 0.84 <= np.mean(held) <= 0.96
    slope = np.polyfit(np.log2(UPDATES), np.log2(1.0 + np.array(UPDATES)), 1)[0]
    assert costs == pytest.approx([2**slope] * len(costs), rel=1e-6)


def test_what_goes_by_no_power_is_no_law() -> None:
    rng = np.random.default_rng(0)
    needed = 1000 * 2.0 ** (
        np.array([0.0, -1.0, 0.0, 1.0])[:, None] + 0.02 * rng.standard_normal((4, 3))
    )
    assert find_need(of_updates((1, 2, 4, 8)), needed, 0.9) == Unidentified(kind="no law")


def test_the_luck_of_a_seed_at_all_updates_is_no_noise() -> None:
    own = 0.01 * np.random.default_rng(0).standard_normal((3, 3))
    luck = np.array([-1.0, 0.0, 1.0])
    need = find_need(of_updates(UPDATES), 2.0 ** (10 - np.log2(UPDATES)[:, None] + luck + own), 0.9)
    assert isinstance(need, Need)
    factor = need.factors["updates"]
    assert factor.median == pytest.approx(0.5, rel=0.02)
    assert factor.high / factor.low < 1.1


@pytest.mark.parametrize(
    ("reward", "why"),
    [
        (lambda c: 0 * c.reward + 0.3, Unidentified(kind="little gain", found=0.0, least=0.04)),
        (lambda c: 0.2 + 0.3 * (c.steps > 0), Unidentified(kind="at once")),
        (lambda c: np.linspace(0.2, 0.6, len(c.steps)), Unidentified(kind="no spread")),
    ],
)
def test_what_is_not_identified_says_why(reward: object, why: Unidentified) -> None:
    assert callable(reward)
    planted = runs(0.5, np.random.default_rng(0))
    changed = [{seed: replace(c, reward=reward(c)) for seed, c in of.items()} for of in planted]
    found = find_needs({"updates": UPDATES}, changed, 0.02, 0.9)
    assert vars(found) == pytest.approx(vars(why))


def test_a_lucky_first_record_raises_the_threshold() -> None:
    """One run has 60% of the least gain by its first record."""
    planted = runs(0.3, np.random.default_rng(0), noise=0.002)
    least = min(float(c.reward.max()) for of in planted for c in of.values())
    lucky = planted[0][0]
    reward = np.maximum(lucky.reward, np.where(lucky.steps > 0, 0.2 + 0.6 * (least - 0.2), 0))
    plain, raised = (
        find_needs({"updates": UPDATES}, each, 0.02, 0.9)
        for each in (planted, [{**planted[0], 0: replace(lucky, reward=reward)}, *planted[1:]])
    )
    assert isinstance(plain, Needs)
    assert isinstance(raised, Needs)
    assert plain.threshold == pytest.approx(0.2 + (least - 0.2) / 2, abs=0.01)
    assert raised.threshold == pytest.approx(0.2 + 2 / 3 * (least - 0.2), abs=0.01)


def test_one_seed_gives_no_law() -> None:
    of_one = [{0: of[0]} for of in runs(0.5, np.random.default_rng(0))]
    found = find_needs({"updates": UPDATES}, of_one, 0.02, 0.9)
    assert found == Unidentified(kind="few seeds", found=1, least=2)


def test_passes_and_parts_that_save_alike_are_one_law_and_have_a_factor_each() -> None:
    planted = runs(0.6, np.random.default_rng(0), updates=SPLIT["updates"])
    found = find_needs(SPLIT, planted, 0.02, 0.9)
    assert isinstance(found, Needs)
    assert list(found.rollouts.factors) == ["updates"]
    assert list(found.rollouts.by_setting) == ["iterations", "mini_batches"]
    assert found.alike
    for factor in (found.rollouts.factors["updates"], *found.rollouts.by_setting.values()):
        assert factor.low <= 2**-0.6 <= factor.high


def test_passes_that_save_where_parts_do_not_do_not_act_alike() -> None:
    saved = {"iterations": 0.6, "mini_batches": 0.2}
    rng = np.random.default_rng(0)
    luck = 0.15 * rng.standard_normal(3)
    drawn = np.concatenate([[0], np.unique(np.geomspace(4, 1000, 15).round())]).astype(int)
    rollouts = drawn * RUN.num_generations * RUN.problems_per_batch
    curves = []
    for passes, parts in zip(SPLIT["iterations"], SPLIT["mini_batches"], strict=True):
        middle = 3000 * passes ** -saved["iterations"] * parts ** -saved["mini_batches"]
        late = np.log(np.maximum(rollouts, 1e-9) / middle)
        curves.append(
            {
                seed: curve_of(
                    rollouts * 1.0,
                    0.2 + 0.5 / (1 + np.exp(1.5 * (own + 0.03 * rng.standard_normal() - late))),
                    steps=drawn,
                )
                for seed, own in enumerate(luck)
            }
        )
    found = find_needs(SPLIT, curves, 0.02, 0.9)
    assert isinstance(found, Needs)
    assert found.alike is False
    for name, factor in found.rollouts.by_setting.items():
        assert factor.low <= 2 ** -saved[name] <= factor.high
    law = {"updates": SPLIT["updates"], "num_generations": 8, "problems_per_batch": 4}
    said = words.line("comparison", "sentence", {**law, "found": asdict(found)}, True, "flops")
    assert "The two settings do not act alike. A doubling of one setting alone" in said


def test_the_reward_of_models_that_start_apart_lies_above_the_highest_start() -> None:
    planted = runs(0.5, np.random.default_rng(0), noise=0.002, updates=(1, 1, 2, 2, 4, 4))
    sizes = (1e9, 2e9) * 3
    started = [
        {seed: replace(c, reward=c.reward + (0.2 if size > 1e9 else 0)) for seed, c in of.items()}
        for of, size in zip(planted, sizes, strict=True)
    ]
    amounts: dict[Amount, Sequence[float]] = {
        "updates": (1, 1, 2, 2, 4, 4),
        "parameters": sizes,
    }
    found = find_needs(amounts, started, 0.02, 0.9)
    assert isinstance(found, Needs)
    least = min(float(c.reward.max()) for of in started for c in of.values())
    assert found.threshold == pytest.approx((0.4 + least) / 2, abs=0.01)


AMOUNTS: dict[Amount, tuple[float, ...]] = {
    "updates": (1, 2, 4, 8),
    "batch": (8, 32, 128),
    "parameters": (0.5e9, 1.5e9, 3e9, 7e9),
}
EXPONENTS: dict[Amount, float] = {"updates": 0.8, "batch": 1.0, "parameters": 0.6}


def planted_sum(
    of: Sequence[Amount], rng: np.random.Generator, noise: float, floor: float = 300.0
) -> tuple[dict[Amount, FloatArray], FloatArray, float]:
    """log2 of the amounts (points,), the rollouts that each point needs (points, 2 seeds), and
    their least number with the luck of these seeds."""
    grid = np.meshgrid(*(np.log2(AMOUNTS[name]) for name in of), indexing="ij")
    logs = {name: axis.ravel() for name, axis in zip(of, grid, strict=True)}
    terms = [
        350 * 2.0 ** ((1 if name == "batch" else -1) * EXPONENTS[name] * (x - x.mean()))
        for name, x in logs.items()
    ]
    luck = 0.15 * rng.standard_normal(2)
    own = luck + noise * rng.standard_normal((len(terms[0]), 2))
    return logs, (floor + sum(terms))[:, None] * np.exp(own), floor * float(np.exp(luck.mean()))


def holds(parameter: Parameter, truth: float) -> bool:
    return (parameter.low or 0) <= truth <= (parameter.high or math.inf)


@pytest.mark.long
@pytest.mark.parametrize(
    "of", [("updates", "parameters"), ("updates", "batch"), ("updates", "batch", "parameters")]
)
def test_nine_of_ten_intervals_of_the_sum_hold_what_was_planted(of: Sequence[Amount]) -> None:
    rng = np.random.default_rng(5)
    held: dict[str, list[bool]] = {name: [] for name in ("floor", *of)}
    for _ in range(200):
        logs, needed, floor = planted_sum(of, rng, 0.08)
        found = find_sum(logs, needed, 0.9)
        if isinstance(found, SumLaw):
            held["floor"].append(holds(found.floor, floor))
            for name in of:
                held[name].append(holds(found.exponents[name], EXPONENTS[name]))
    shares = {name: np.mean(values) for name, values in held.items()}
    assert min(map(len, held.values())) >= 190
    assert all(share >= 0.85 for share in shares.values()), shares


def test_a_sum_known_well_gives_its_exponents_and_its_least_number() -> None:
    logs, needed, floor = planted_sum(
        ("updates", "parameters"), np.random.default_rng(0), noise=0.002
    )
    found = find_sum(logs, needed, 0.9)
    assert isinstance(found, SumLaw)
    assert found.floor.value == pytest.approx(floor, rel=0.1)
    assert known(found.floor.low) < floor < known(found.floor.high)
    for name, exponent in found.exponents.items():
        assert exponent.value == pytest.approx(EXPONENTS[name], rel=0.05)
        assert known(exponent.high) / known(exponent.low) < 1.3
    # What the law gives for the first point, and what that point took.
    at = {name: 2.0 ** values[0] for name, values in logs.items()}
    expected = known(found.floor.value) + sum(
        found.coefficients[name] * at[name] ** -known(found.exponents[name].value) for name in at
    )
    assert expected == pytest.approx(math.sqrt(math.prod(needed[0])), rel=0.02)


def test_a_sum_that_its_data_do_not_tell_says_why() -> None:
    rng = np.random.default_rng(0)
    logs, needed, _ = planted_sum(("updates", "parameters"), rng, 0.02)
    two = np.isin(logs["parameters"], np.log2(AMOUNTS["parameters"][:2]))
    few = find_sum({name: of[two] for name, of in logs.items()}, needed[two], 0.9)
    assert few == Unidentified(kind="few amounts", found=2, least=3, of="parameters")
    turned = {**logs, "updates": -logs["updates"]}
    assert find_sum(turned, needed, 0.9) == Unidentified(kind="wrong way", of="updates")
    alike: dict[Amount, FloatArray] = {
        "updates": logs["updates"],
        "parameters": 2 * logs["updates"],
    }
    assert find_need(alike, needed, 0.9) == Unidentified(kind="together")
    luck = 1000 * np.exp(0.2 * np.random.default_rng(0).standard_normal(needed.shape))
    assert find_sum(logs, luck, 0.9) == Unidentified(kind="uncertain")


# Environment steps until h1-crawl-v0 is solved, for 1, 2, 4 and 8 updates on each (rows) and
# critics of four sizes, and what the authors' own fit of the sum gives. From the results published
# with arXiv 2508.14881 (SimbaV2, 23 August 2025).
CRITICS = (604_362, 2_322_634, 9_101_514, 36_028_618)
STEPS = (
    *(880e3, 500e3, 400e3, 320e3),
    *(800e3, 480e3, 340e3, 300e3),
    *(700e3, 400e3, 280e3, 300e3),
    *(660e3, 340e3, 300e3, 320e3),
)
FITTED = (
    *(807_771, 473_360, 386_250, 364_071),
    *(760_077, 425_666, 338_556, 316_378),
    *(733_625, 399_214, 312_104, 289_925),
    *(718_953, 384_542, 297_432, 275_253),
)


def test_published_steps_to_a_return_are_fitted_as_their_authors_do() -> None:
    logs: dict[Amount, FloatArray] = {
        "updates": np.log2(np.repeat((1.0, 2.0, 4.0, 8.0), 4)),
        "parameters": np.log2(np.tile(CRITICS, 4)),
    }
    found = find_sum(logs, np.array(STEPS)[:, None], 0.9)
    assert isinstance(found, SumLaw)
    expected = np.full(len(STEPS), known(found.floor.value))
    for name, of in logs.items():
        expected += found.coefficients[name] * 2.0 ** (-known(found.exponents[name].value) * of)
    assert expected == pytest.approx(FITTED, rel=1e-4)
    # Their law, from its 16 values.
    theirs = find_sum(logs, np.array(FITTED, float)[:, None], 0.9)
    assert isinstance(theirs, SumLaw)
    assert found.floor.value == pytest.approx(known(theirs.floor.value), rel=1e-3)
    # As docs/updates.md has them.
    assert found.floor.low is None
    assert known(found.floor.high) == pytest.approx(302e3, rel=0.01)
    of_size = found.exponents["parameters"]
    assert (of_size.low, of_size.high) == pytest.approx((0.71, 1.40), abs=0.01)


def planted_batch(
    rng: np.random.Generator, noise: float
) -> tuple[dict[Amount, FloatArray], FloatArray]:
    """Parabolas in log2 B with their middle at B = 45 U^-0.5."""
    grid = np.meshgrid(np.arange(3.0), np.arange(2.0, 8.0), indexing="ij")
    updates, batch = (axis.ravel() for axis in grid)
    level = 10 - 0.4 * updates + 0.08 * (batch - 5.5 + 0.5 * updates) ** 2
    needed = 2.0 ** (level[:, None] + noise * rng.standard_normal((len(batch), 3)))
    return {"updates": updates, "batch": batch}, needed


def test_intervals_of_the_best_batch_hold_it_in_nine_of_ten_sweeps() -> None:
    rng = np.random.default_rng(0)
    middles, values, powers = [], [], []
    for _ in range(200):
        found = find_best_batch(*planted_batch(rng, 0.1), 0.9)
        if isinstance(found, BestBatch):
            middles.append(holds(found.middle, 2**5))
            values.append(known(found.middle.value))
            factor = found.factors["updates"]
            powers.append(factor.low <= 2**-0.5 <= factor.high)
    assert len(middles) >= 190
    assert np.median(values) == pytest.approx(2**5, rel=0.1)
    assert 0.85 <= np.mean(middles) <= 0.95
    assert 0.85 <= np.mean(powers) <= 0.95


def test_rollouts_that_only_rise_with_the_batch_have_no_best_one() -> None:
    logs, needed = planted_batch(np.random.default_rng(0), 0.1)
    straight = needed * 2.0 ** (-0.08 * (logs["batch"] - 5.5 + 0.5 * logs["updates"]) ** 2)[:, None]
    found = find_best_batch(logs, straight * 2.0 ** logs["batch"][:, None], 0.9)
    assert found == Unidentified(kind="no best")


def test_variants_of_the_updates_say_what_they_save_and_cost(tmp_path: Path) -> None:
    """Sweeps whose rewards rise with rollouts times the root of their updates."""

    def of(number: int) -> RewardAt:
        rate = number**0.5 / BUDGETS[0] / 8
        return lambda compute, n, B: 0.2 + 0.08 * float(np.log2(1 + compute * rate))

    entries = {f"{k} updates": (of(k), {"recipe": {"num_iterations": k}}) for k in (1, 4, 16)}
    comparison, of_two = compared(tmp_path, entries)
    assert of_two.updates_laws == ()
    (law,) = comparison.updates_laws
    assert law.updates == (1, 4, 16)
    assert law.entries == ("1 updates", "4 updates", "16 updates")
    assert isinstance(law.found, Needs)
    factor = law.found.rollouts.factors["updates"]
    assert factor.low <= 2**-0.5 <= factor.high < 0.85
    assert summarise(comparison)[-1].startswith("Each doubling of the updates on a rollout")
    document = json.loads(paths_in(tmp_path).comparison.read_text())
    assert (
        document["updates_laws"][0]["found"]["rollouts"]["factors"]["updates"]["high"]
        == factor.high
    )
    page = paths_in(tmp_path).report.read_text()
    assert 'id="figure-comparison_updates"' in page
    assert "Updates to data" in page


def test_variants_of_updates_batch_and_model_size_are_one_law(tmp_path: Path) -> None:
    """Rewards that rise with rollouts, faster with passes, parts and size, slower with B."""
    entries = []
    variants = itertools.product(((1, 1), (2, 1), (2, 2)), (1, 4))
    for place, ((passes, parts), size) in enumerate(variants):
        rate = (passes * parts) ** 0.5 * size**0.3 / BUDGETS[0] / 8

        def reward(compute: float, n: int, B: int, rate: float = rate) -> float:
            return 0.2 + 0.08 * float(np.log2(1 + compute * rate * (B / 8) ** -0.3))

        planned = make_plan(generations=(8,), batches=(8, 16, 32), seeds=(0, 1))
        paths = write_sweep(tmp_path / str(place), reward, plan=planned, noise=0.004, seed=place)
        recipe = {"num_iterations": passes, "mini_batches": parts}
        write_json(paths.config, {"grid": {}, "recipe": recipe, "model": {"name": f"{size}b"}})
        data = load_sweep(paths)
        name = f"{passes} x {parts}, {size}b"
        entry = Entry.of_variant({}, data, find(data, CONFIG), sweep=name)
        entries.append(replace(entry, parameters=size * 1e9))
    comparison = compare(entries, CONFIG, "variant")
    (law,) = comparison.joint_laws
    assert len(law.entries) == 18
    assert sorted(set(law.updates)) == [1, 2, 4]
    assert isinstance(law.found, Needs)
    truths = {"updates": 2**-0.5, "batch": 2**0.3, "parameters": 2**-0.3}
    for name, factor in law.found.rollouts.factors.items():
        assert factor.median == pytest.approx(truths[name], rel=0.1)
    assert len(comparison.updates_laws) == 6
    scheduled = [
        replace(entry, settings={**entry.settings, "recipe.schedule.problems_per_batch.1e9": 8})
        for entry in entries
    ]
    assert JOINT.laws(entries, 0.02, 0.9) == comparison.joint_laws
    assert JOINT.laws(scheduled, 0.02, 0.9) == ()
    write_comparison(comparison, entries, paths_in(tmp_path), ["png"])
    page = paths_in(tmp_path).report.read_text()
    assert "Updates, batch and model size together" in page
    (sentence,) = (each for each in summarise(comparison) if each.startswith("With n = 8: "))
    assert " with updates, " in sentence
    assert " with B and " in sentence
    assert "D_min is not established: model size has 2 values, and 3 are needed." in sentence
    rows = list(csv.DictReader(paths_in(tmp_path).table("effects").read_text().splitlines()))
    (of_all,) = (
        row
        for row in rows
        if (row["quantity"], row["amount"], row["B"]) == ("rollouts", "batch", "")
    )
    assert float(of_all["value"]) == law.found.rollouts.factors["batch"].median
    assert {row["quantity"] for row in rows} >= {"rollouts", "compute"}
