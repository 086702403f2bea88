"""Ragged tables: what was not trained, or not evaluated, is never read as a result."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.surface import import_rows, refused

Reward = Callable[[float, int], float]


def rows(
    reward: Reward,
    compute: Callable[[int], Sequence[float]],
    generations: Sequence[int],
    error: float = 0.003,
) -> Iterator[dict[str, object]]:
    """Three seeds of every n, evaluated at `compute(n)` rollouts with that standard error."""
    rng = np.random.default_rng(1)
    for n in generations:
        for seed in range(3):
            luck = rng.normal(0, error / 2)
            for rollouts in compute(n):
                value = reward(rollouts, n) + luck + rng.normal(0, error)
                yield {
                    "n": n,
                    "B": 32,
                    "seed": seed,
                    "rollouts": round(rollouts),
                    "eval_reward": round(value, 5),
                    "standard_error": error,
                }


def peaked(best: Callable[[float], float], loss: float) -> Reward:
    """Rewards that rise with log compute and lose `loss` per squared doubling from the best n."""

    def reward(compute: float, n: int) -> float:
        away = math.log2(n / best(compute))
        return 0.2 + 0.08 * math.log10(compute / 1e4) - loss * away**2

    return reward


def ladder(low: float, high: float, per_decade: int = 8) -> list[float]:
    number = round(per_decade * math.log10(high / low)) + 1
    return [float(x) for x in np.geomspace(low, high, number)]


def caveat(answer: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in answer["caveats"] if each["kind"] == kind)
    return found


@pytest.mark.parametrize(("quantity", "behind"), [("enough", 0.3), ("enough", 1.3), ("best", 0.7)])
def test_n_that_were_not_trained_so_far_are_not_read_as_worse(
    tmp_path: Path, quantity: str, behind: float
) -> None:
    ends = {n: 4e6 if n < 32 else 4e6 / 10**behind for n in (8, 16, 32, 64, 128)}
    # The best n grows from 8 to 128. At the end n = 8 loses 0.045, but less than 0.02 to n = 16.
    table = rows(
        peaked(lambda C: min(128, 8 * (C / 4e4) ** 0.85), 0.0028),
        lambda n: ladder(4e4, ends[n]),
        sorted(ends),
        error=0.001,
    )
    budgets = ",".join(f"{x:g}" for x in ladder(1e5, 3.9e6, 4))
    said, answer = import_rows(tmp_path, table, f"budget=[{budgets}]", quantity=quantity)
    assert answer["verdict"] in ("not identified", "grew"), said
    for false in ("fell", "does not change", "smaller n to"):
        assert false not in said
    assert caveat(answer, "behind")["n"] == [32, 64, 128]
    assert answer["use"]["budget"] <= ends[128]
    assert answer["next_steps"][0]["kind"] == "go on"
    assert answer["next_steps"][0]["n"] == [32, 64, 128]
    assert "no run of n = 32, 64, 128 has records near" in said
    # Of what lies above n = 16 nothing is said there: both n may.
    last = answer["optima"][-1]
    assert last["n_star"]["open_above"]
    assert last["n_d"]["open_above"]
    assert last["n_d"]["high"] == 16


def test_nothing_is_read_between_records_more_than_half_a_decade_apart(tmp_path: Path) -> None:
    # n* is 8 before the hole and 64 after it, at rest on both sides.
    table = rows(
        peaked(lambda C: 8 if C < 1e6 else 64, 0.012),
        lambda n: [*ladder(1e4, 1e5), *ladder(1e7, 1e8)],
        (4, 8, 16, 32, 64, 128),
    )
    said, answer = import_rows(tmp_path, table)
    read = [at["budget"] for at in answer["optima"]]
    assert read
    assert not [budget for budget in read if 1.01e5 < budget < 0.99e7]
    gap = caveat(answer, "unread")["gap"]
    assert (gap["low"], gap["high"], gap["empty"]) == (pytest.approx(1e5), pytest.approx(1e7), True)
    assert "No records between 1e5 and 1e7 rollouts" in said
    # It rose within the hole and rests: whether it still grows there nobody saw.
    assert "growing" not in answer["verdict"]
    assert answer["verdict"] != "constant"
    if (settled := answer["settles_at"]) is not None:
        assert not 1.01e5 < settled["median"] < 0.99e7
    inside = refused("mode=recommend", "sweep=imported", "budget=1e6", cwd=tmp_path)
    assert "budget=1e+06" in inside
    assert "between 1e5 and 1e7" in inside


def test_what_rose_and_fell_within_a_hole_is_not_constant(tmp_path: Path) -> None:
    table = rows(
        peaked(lambda C: 16, 0.012),
        lambda n: [*ladder(1e4, 1e5), *ladder(1e6, 1e7)],
        (4, 8, 16, 32, 64),
    )
    _, answer = import_rows(tmp_path, table, quantity="best")
    assert answer["verdict"] in ("steady", "not identified")
    if answer["verdict"] == "steady":
        assert answer["growth"]["steady_from"] >= 0.99e6


def test_one_evaluation_a_decade_is_no_curve(tmp_path: Path) -> None:
    def staggered(n: int) -> list[float]:
        return [10 ** (4 + k + 0.15 * math.log2(n / 4)) for k in range(4)]

    said, answer = import_rows(
        tmp_path,
        rows(peaked(lambda C: 8 * (C / 1e4) ** 0.5, 0.01), staggered, (4, 8, 16, 32, 64)),
        "budget=[2e4,2e5,2e6]",
    )
    # Only where a run has a record at a budget is it read.
    assert all(len(at["candidates"]) == 1 for at in answer["optima"])
    assert answer["verdict"] == "not identified"
    assert "growing" not in said


def test_evaluations_a_decade_apart_that_miss_a_budget_by_a_little_are_read(tmp_path: Path) -> None:
    def past_each(n: int) -> list[float]:
        # By many steps at the larger budgets.
        return [round(1.006 * 10**k / (n * 32)) * n * 32 for k in (5, 6, 7, 8)]

    said, answer = import_rows(
        tmp_path,
        rows(peaked(lambda C: 32, 0.015), past_each, (8, 16, 32, 64, 128)),
        "budget=[1e5,1e6,1e7,1e8]",
    )
    assert [at["budget"] for at in answer["optima"]] == [1e5, 1e6, 1e7, 1e8]
    assert answer["use"]["num_generations"] == 32
    assert "has records" not in said
    assert "not known at" not in said


def test_no_rate_is_said_where_larger_n_were_not_trained(tmp_path: Path) -> None:
    ends = {4: 1e7, 8: 1e7, 16: 1e7, 32: 1e7, 64: 3e6, 128: 1e6, 256: 6e5}
    table = rows(
        peaked(lambda C: 8 * (C / 1e4) ** 0.42, 0.005), lambda n: ladder(1e4, ends[n], 6), [*ends]
    )
    budgets = ",".join(f"{x:g}" for x in ladder(1e4, 1e7, 4))
    said, answer = import_rows(tmp_path, table, f"budget=[{budgets}]", quantity="best")
    assert answer["growth"]["closed"] < 0.5
    assert "it grows by -" not in said
    if answer["verdict"] == "grew":
        assert "How fast it grows at the largest budgets is not known" in said


def test_a_run_without_a_budget_between_its_records_is_left_out(tmp_path: Path) -> None:
    table = rows(peaked(lambda C: 16, 0.01), lambda n: ladder(1e4, 1e6), (8, 16, 32))
    odd = rows(peaked(lambda C: 16, 0.01), lambda n: [2e5, 2.1e5], (64,))
    said, answer = import_rows(tmp_path, [*table, *odd], "budget=[3e4,1e5,1e6]")
    assert "left out: no budget" in said
    assert 64 not in answer["runs"]["generations"]


def test_a_fall_from_a_first_record_after_training_began_is_no_collapse(tmp_path: Path) -> None:
    """Without a record at step 0 the gain before the first one is not known."""
    course = (0.065, 0.08, 0.103, 0.1, 0.09, 0.0825, 0.082)

    def reward(compute: float, n: int) -> float:
        if n == 32:
            at = math.log10(compute / 1e5) / 2 * (len(course) - 1)
            return float(np.interp(at, range(len(course)), course))
        return 0.06 + 0.02 * math.log10(compute / 1e5) + 0.004 * math.log2(n)

    table = rows(reward, lambda n: ladder(1e5, 1e7, 6), (8, 16, 32), error=0.001)
    said, answer = import_rows(tmp_path, table)
    assert answer["runs"]["fallen"] == []
    assert "ollapsed" not in said


def test_an_n_has_collapsed_where_all_its_runs_have_and_not_those_that_came_so_far(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)

    def table() -> Iterator[dict[str, object]]:
        for n in (8, 16, 32):
            for seed in range(4):
                falls = n == 32 and seed == 0
                end = 1e7 if n < 32 or falls else 2e6
                for rollouts in [0.0, *ladder(1e5, end, 6)]:
                    reward = 0.1 + (0.1 * math.log10(rollouts / 1e4) if rollouts else 0)
                    if falls and rollouts > 2.5e6:
                        reward = 0.1
                    yield {
                        "n": n,
                        "B": 32,
                        "seed": seed,
                        "step": round(rollouts / n / 32),
                        "rollouts": round(rollouts),
                        "eval_reward": round(reward + rng.normal(0, 0.003), 5),
                        "standard_error": 0.003,
                    }

    said, answer = import_rows(tmp_path, table(), "budget=[3e5,1e6,2e6,5e6,9e6]")
    assert answer["runs"]["fallen"][0]["collapsed"] == 1
    assert "all runs of n = 32" not in said.lower()


def test_n_d_that_grows_beside_a_best_n_that_rests_is_not_told_alone(tmp_path: Path) -> None:
    # n = 32 is best throughout; what others lose grows with what is gained.
    table = rows(
        lambda C, n: 0.1 + 0.2 * math.log10(C / 1e5) * (1 - 0.07 * math.log2(n / 32) ** 2),
        lambda n: ladder(1.5e5, 1e7),
        (4, 8, 16, 32, 64, 128),
    )
    said, answer = import_rows(tmp_path, table)
    assert answer["verdict"] in ("saturated", "growing", "grew")
    rests = caveat(answer, "best moves")
    assert not rests["moves"]
    assert rests["last"]["n_star"]["median"] == pytest.approx(32, rel=0.2)
    assert "n*, shows no change" in said


def test_a_margin_that_is_a_large_part_of_the_gain_is_said_in_that_scale(tmp_path: Path) -> None:
    # All that is gained is 0.06; the best n goes from 8 to 64, and n = 8 loses 0.018 at the end.
    table = rows(
        lambda C, n: (
            0.1 + 0.03 * math.log10(C / 1e5) - 0.002 * math.log2(n / (8 * (C / 1e5) ** 0.45)) ** 2
        ),
        lambda n: ladder(1e5, 1e7),
        (8, 16, 32, 64, 128),
    )
    said, answer = import_rows(tmp_path, table)
    coarse = caveat(answer, "coarse margin")
    assert coarse["margin"] == 0.02
    assert coarse["gain"] == pytest.approx(0.06, abs=0.01)
    assert "of the whole gain" in said
    if answer["verdict"] in ("constant", "steady", "n does not matter"):
        moves = caveat(answer, "best moves")
        assert moves["last"]["n_star"]["median"] > 2 * moves["first"]["n_star"]["median"]
        assert "does not change" not in said
        assert "the best n goes from" in said
