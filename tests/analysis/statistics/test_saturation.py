"""Planted answers are recovered, and what the data do not show is refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.best_n import Frontier, fit_frontier
from isosweep.analysis.statistics.growth import Growth, describe_growth
from isosweep.analysis.statistics.surface import fit_surface
from isosweep.analysis.statistics.verdict import OpenEnd, Saturation, find_saturation, judge
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.statistics.planted import BEST, CONFIG, known, lacking, means_of, read, sweep_of
from tests.analysis.sweeps import BUDGETS, LONG, RewardAt, make_plan, peaked

FIRST = BUDGETS[0]
WIDE = (2, 4, 8, 16, 32, 64, 128)


def sweep(reward: RewardAt, noise: float = 0.004, seed: int = 0, **plan: Any) -> SweepData:
    """Half of the noise is luck that a run keeps."""
    made = make_plan(**plan)
    return sweep_of(made, read(made, reward, 0.7 * noise, seed, luck=0.7 * noise))


def judged(data: SweepData, config: AnalysisConfig = BEST) -> tuple[Frontier, Saturation]:
    return judge(data, config)[1:]


def verdict_of(data: SweepData, config: AnalysisConfig = BEST) -> Saturation:
    return judged(data, config)[1]


def steps(*best: float) -> RewardAt:
    """n* at the budgets, ascending."""
    return peaked(lambda C: best[round(math.log2(C / FIRST))])


@pytest.mark.parametrize(
    ("reward", "given", "verdict", "kind"),
    [
        (peaked(lambda C: 2 * C / FIRST), {"generations": WIDE}, "growing", "growing"),
        (peaked(lambda C: 64.0), {}, "not identified", "edge"),
        (peaked(lambda C: 8.0), {}, "constant", "constant"),
        (peaked(lambda C: 8.0, fall=0.0), {"noise": 0.002}, "n does not matter", "harmless"),
        (steps(2, 2, 8, 16, 4), {}, "fell", "fell"),
        (peaked(lambda C: 8.0), {"seeds": (0,)}, "not identified", "one seed"),
        (peaked(lambda C: 8.0), {"budgets": BUDGETS[:2]}, "not identified", "few budgets"),
        (peaked(lambda C: 8.0), {"generations": (2, 4)}, "not identified", "few n"),
        (peaked(lambda C: 4.0, fall=0.002), {"noise": 0.1}, "not identified", "undecided"),
        (peaked(lambda C: 4 * C / FIRST, 0.002), {"noise": 0.1}, "not identified", "undecided"),
    ],
)
def test_a_planted_course_has_its_verdict_and_what_is_not_shown_none(
    reward: RewardAt, given: dict[str, Any], verdict: str, kind: str
) -> None:
    frontier, found = judged(sweep(reward, **given))
    assert (found.verdict, found.reason.kind) == (verdict, kind)
    grid = given.get("generations", (2, 4, 8, 16, 32))
    assert found.reason.measured == grid
    if kind in ("one seed", "undecided"):
        assert all(at.candidates == grid for at in frontier.optima)
    if kind == "growing":
        # A doubling of n for every doubling of compute.
        rate = known(found.growth).rate
        assert rate.low - 1e-6 < 1 / np.log10(2) < rate.high
    if kind == "edge":
        assert found.reason.edge == 32
        assert found.reason.end == OpenEnd(kind="above", edge=32)
    if kind in ("constant", "harmless"):
        assert found.reason.margin == 0.02
        assert found.harmless == ((8,) if kind == "constant" else grid)
    if kind == "fell":
        assert known(found.growth).fell > 0.97
    if kind == "few budgets":
        assert found.reason.num_budgets == 2


def test_planted_saturation_is_detected() -> None:
    frontier, found = judged(sweep(peaked(lambda C: min(8.0, 2 * C / FIRST)), budgets=LONG))
    assert found.verdict == "saturated"
    plateau, settles_at = known(found.plateau), known(found.settles_at)
    assert plateau.low < 8 < plateau.high < 12
    # n* is within half a doubling of 8 from 5.7e6 on, between two budgets.
    assert (settles_at.low, settles_at.median, settles_at.high) == (4e6, 8e6, 8e6)
    rate = known(found.growth).rate
    assert rate.low < 0 < rate.high < 0.5
    assert [at.best for at in frontier.optima] == [2, 4, 8, 8, 8]


def test_growth_that_settles_at_the_edge_or_pauses_before_the_end_is_no_saturation() -> None:
    best = {2: 4.0, 4: 8.0}
    reward = peaked(lambda C: best.get(round(C / 1e6), 16.0))
    found = verdict_of(sweep(reward, generations=(4, 8, 16), budgets=LONG))
    assert (found.verdict, found.reason.end) == ("grew", OpenEnd(kind="above", edge=16))
    assert found.plateau is None
    assert verdict_of(sweep(steps(16, 4, 4, 4, 16))).verdict != "saturated"
    assert verdict_of(sweep(steps(2, 4, 4, 4, 16))).verdict in ("growing", "grew")


def drawn(path: tuple[float, ...], spread: tuple[float, ...]) -> Saturation:
    """Of draws of log2 n* around `path`, at the budgets of BUDGETS."""
    plan, rng = make_plan(), np.random.default_rng(0)
    readings = read(plan, lambda C, n, B: 0.5, noise=0.01)
    means = means_of(readings)
    fitted = fit_surface(means)
    best = np.array(path) + np.array(spread) * rng.standard_normal((1000, len(path)))
    away = np.abs(fitted.log2_n - best.clip(1, 5)[:, :, None])
    surface = replace(fitted, draws=-0.1 * away[..., None])
    return find_saturation(fit_frontier(readings, means, surface, BEST), surface, BEST)


def test_a_best_n_that_rises_and_returns_is_not_constant() -> None:
    rests, returns = (2.4, 2.4, 2.4, 2.4, 2.4), (2.4, 2.8, 4.2, 2.8, 2.4)
    sure, unsure = (0.3, 0.3, 0.3, 0.3, 0.3), (0.3, 0.3, 0.9, 0.3, 0.3)
    assert drawn(rests, sure).verdict == "constant"
    # A peak of which nothing is known is no evidence against it.
    assert drawn(rests, unsure).verdict == "constant"
    found = drawn(returns, unsure)
    assert (found.verdict, found.reason.kind) == ("not identified", "undecided")
    growth = known(found.growth)
    assert growth.unchanged > 0.9
    assert 0.5 < growth.moved < 0.95
    assert (growth.fell > growth.grew, growth.peak) == (True, 8e6)


def test_n_that_were_never_run_are_not_said_not_to_matter() -> None:
    whole = sweep(peaked(lambda C: 8.0, fall=0.0), noise=0.002)
    assert verdict_of(whole).verdict == "n does not matter"
    for fallen, end in (
        (None, OpenEnd(kind="missing", edge=16, n=(32,))),
        # These were run: it is no use to run them again.
        (0.1, None),
    ):
        part = lacking(whole, lambda cell: cell.num_generations == 32, fallen)
        frontier, found = judged(part, BEST)
        assert frontier.unread == (32,)
        assert found.verdict != "n does not matter"
        assert (found.reason.end, found.reason.lacking) == (end, ())


def test_n_that_lack_records_are_not_beyond_the_grid_and_those_that_fell_are() -> None:
    whole = sweep(peaked(lambda C: 4 * C / LONG[0]), budgets=LONG)
    found = verdict_of(whole)
    assert (found.verdict, found.reason.end) == ("growing", OpenEnd(kind="above", edge=32))
    # In mid-course, of n = 32 nothing yet, or nothing at the larger budgets.
    for budgets in (LONG, LONG[3:]):
        part = lacking(whole, lambda c: c.num_generations == 32 and c.budget in budgets)  # noqa: B023
        assert verdict_of(part).reason.end == OpenEnd(kind="missing", edge=16, n=(32,))
    fell = lacking(whole, lambda cell: cell.num_generations == 32, 0.0, "collapsed")
    frontier, found = judged(fell, BEST)
    assert (frontier.unread, frontier.fell) == ((32,), (32,))
    assert found.reason.end == OpenEnd(kind="above", edge=16, n=(32,))


@pytest.mark.parametrize(
    ("behind", "edge", "censored"),
    [
        ((2, 4, 8), 32, (True, False)),
        ((16, 32), 8, (False, True)),
        # Far from where n* is.
        ((2,), None, (False, False)),
    ],
)
def test_n_that_are_behind_are_named_where_the_best_n_may_be_among_them(
    behind: tuple[int, ...], edge: int | None, censored: tuple[bool, bool]
) -> None:
    part = lacking(
        sweep(peaked(lambda C: 8.0), budgets=LONG),
        lambda cell: cell.num_generations in behind and cell.budget == LONG[-1],
    )
    frontier, found = judged(part, BEST)
    assert frontier.budgets[-1].missing == behind
    assert found.verdict == ("constant" if edge is None else "not identified")
    assert found.reason.end == (edge and OpenEnd(kind="missing", edge=edge, n=behind))
    last = known(frontier.optima[-1].n_star)
    assert (last.open_below, last.open_above) == censored


def near(fall: float, noise: float, seed: int = 0) -> Saturation:
    """Of runs of the n within a doubling of the best at each budget."""
    best = dict(zip(LONG, (4, 4, 8, 16, 16), strict=True))
    whole = make_plan(seeds=(0, 1, 2, 3), budgets=LONG)
    cells = (c for c in whole.cells if 0.5 <= c.num_generations / best[c.budget] <= 2)
    # Without runs, which would have luck.
    plan = replace(whole, cells=tuple(cells), runs=())
    return verdict_of(sweep_of(plan, read(plan, peaked(lambda C: best[C], fall), noise, seed)))


def test_n_left_out_at_larger_budgets_are_not_called_harmless_there() -> None:
    # No two n that are compared differ by more than 0.01; n = 2 loses 0.09 at the end.
    verdicts = {near(fall=0.01, noise=0.002, seed=seed).verdict for seed in range(3)}
    assert verdicts <= {"growing", "probably growing", "grew"}
    # They may be known from smaller budgets; and what leaves that open is named.
    assert near(fall=0.0, noise=0.004).verdict == "n does not matter"
    found = near(fall=0.0, noise=0.02)
    assert found.verdict == "not identified"
    assert (found.reason.end, found.reason.lacking) == (None, (2, 4))


def test_the_smallest_n_that_is_good_enough_is_told_from_the_best() -> None:
    # 0.03 a squared doubling: 0.02 is lost 0.82 doublings below the best.
    data = sweep(steps(4, 4, 8, 16, 16), noise=0.002, generations=WIDE)
    frontier, of_best = judged(data)
    of_enough = verdict_of(data, CONFIG)
    assert (of_enough.quantity, of_best.quantity) == ("enough", "best")
    for at, best in zip(frontier.optima, (4, 4, 8, 16, 16), strict=True):
        assert known(at.n_star).holds(best)
        assert known(at.n_d).median == pytest.approx(best / 2**0.82, rel=0.12)
    assert of_enough.verdict == of_best.verdict == "growing"


def test_that_the_smallest_n_is_good_enough_everywhere_is_known_whatever_lies_below() -> None:
    falls = peaked(lambda C: 4.0)
    data = sweep(falls, noise=0.002, generations=(4, 8, 16, 32, 64))
    assert verdict_of(data).verdict == "not identified"
    frontier, found = judged(data, CONFIG)
    assert found.verdict == "constant"
    assert all(str(at.n_d).startswith("4 (4 or less to 4") for at in frontier.optima)


def test_what_has_probably_stopped_has_a_plateau(monkeypatch: pytest.MonkeyPatch) -> None:
    def described(*given: Any) -> Growth:
        return replace(describe_growth(*given), grew=1.0, fell=0.0, settled=0.84, rising=0.1)

    monkeypatch.setattr(f"{find_saturation.__module__}.describe_growth", described)
    found = verdict_of(sweep(steps(2, 4, 8, 16, 16), generations=WIDE), CONFIG)
    assert (found.verdict, found.reason.kind) == ("probably saturated", "probably saturated")
    assert found.plateau is not None
