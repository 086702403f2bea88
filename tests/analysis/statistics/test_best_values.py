"""What is said of a tuned setting: the best value, rules of the rate, and what it does to n."""

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from isosweep import words
from isosweep.analysis.curves import CellReading
from isosweep.analysis.statistics.best_values import Tuning, find_tuning
from isosweep.analysis.tuned import Scale, TunedCell
from isosweep.files import to_json
from isosweep.modes.analyse import settings_for_the_grid
from tests.analysis.statistics.planted import known, lacking
from tests.analysis.tuned import ANALYSIS, RATE, RATES, cell_of, peak
from tests.conftest import make_config

SMALL, LARGE = (8, 4), (32, 4)
ONE = cell_of(SMALL, peak(2.0))


def summary(tuning: Tuning) -> str:
    return "\n".join(words.lines("tuning", "summary", to_json(asdict(tuning)), 0.02))


def tuned(*cells: TunedCell, rule: str | None = "constant") -> Tuning:
    return find_tuning(cells, ANALYSIS, rule)


def rated(second_best: float, *, own: str = "constant", noise: float = 0.01) -> Tuning:
    """The anchor is best at 4e-4; the second cell, of four times the completions, as given in
    doublings of the smallest rate."""
    best = ((SMALL, 2.0), (LARGE, second_best))
    return tuned(*(cell_of(pair, peak(at), noise=noise) for pair, at in best), rule=own)


def kept(cell: TunedCell, which: Callable[[CellReading], bool]) -> TunedCell:
    readings = tuple(reading for reading in cell.data.readings if which(reading))
    return replace(cell, data=replace(cell.data, readings=readings))


def agreeing(tuning: Tuning) -> list[str]:
    return [rule.rule for rule in tuning.rules if rule.agrees]


@pytest.mark.parametrize(
    ("second_best", "own", "rule", "exponent"),
    [
        (2.0, "constant", "constant", 0.0),
        (3.0, "constant", "sqrt", 0.5),
        (4.0, "constant", "linear", 1.0),
        (2.0, "sqrt", "sqrt", 0.5),
    ],
)
def test_the_rule_that_serves_both_cells_agrees_and_no_other(
    second_best: float, own: str, rule: str, exponent: float
) -> None:
    tuning = rated(second_best, own=own, noise=0.004)
    assert tuning.cells[0].best.values == {RATE: 4e-4}
    assert known(tuning.exponent).low <= exponent <= known(tuning.exponent).high
    assert agreeing(tuning) == [rule]
    losses = {each.rule: 1.0 if each.loss is None else each.loss for each in tuning.rules}
    assert min(losses, key=losses.__getitem__) == rule
    assert losses[rule] < 0.005


def test_the_exponents_interval_covers_the_truth_as_often_as_it_says() -> None:
    held = []
    for seed in range(12):
        cells = (
            cell_of(SMALL, peak(2.5), seed=2 * seed),
            cell_of(LARGE, peak(3.5), seed=seed + 99),
        )
        exponent = known(tuned(*cells).exponent)
        held.append(exponent.low <= 0.5 <= exponent.high)
    # 90% intervals: 97 times of 100, 12 sweeps show 9 or more.
    assert sum(held) >= 9


def test_with_much_noise_no_rule_is_told_from_another() -> None:
    tuning = rated(3.0, noise=0.15)
    assert tuning.exponent is None or len(agreeing(tuning)) > 1


def test_optima_at_edges_bound_the_exponent_on_one_side_or_leave_it_open() -> None:
    tuning = tuned(cell_of(SMALL, peak(4.0)), cell_of((128, 4), peak(8.5)))
    assert tuning.cells[1].open_above
    assert (tuning.exponent_open_below, tuning.exponent_open_above) == (False, True)
    assert 0.5 < known(tuning.exponent).low < 0.9
    assert agreeing(tuning) == ["linear"]
    said = summary(tuning).replace("\n", " ")
    assert "+), which agrees with the rule linear and not with constant or sqrt" in said
    assert "Try larger values too (grid.axes)" in said
    both = tuned(cell_of(SMALL, peak(8.5)), cell_of(LARGE, peak(8.5)))
    assert both.exponent is None
    assert {rule.agrees for rule in both.rules} == {None}
    assert "how the best rate changes with n x B is not established" in summary(both)


def test_a_rule_that_leads_beyond_what_was_tried_has_no_loss() -> None:
    tuning = tuned(cell_of(SMALL, peak(5.0)), cell_of((512, 4), peak(5.0)))
    losses = {rule.rule: rule.loss for rule in tuning.rules}
    assert known(losses["constant"]) < 0.01
    assert losses["linear"] is None


def test_another_setting_has_no_rules_and_two_are_chosen_together() -> None:
    beta = Scale(setting="recipe.beta", values=(0.0, 0.01, 0.02, 0.04))
    tuning = tuned(*(cell_of(pair, peak(1.0), beta) for pair in (SMALL, LARGE)), rule=None)
    assert (tuning.rules, tuning.exponent) == ((), None)
    assert [at.best.values for at in tuning.cells] == [{"recipe.beta": 0.01}] * 2
    assert settings_for_the_grid(tuning, make_config().recipe, 0.02) == {"recipe.beta": 0.01}
    few, rates = replace(beta, values=beta.values[:3]), Scale(setting=RATE, values=RATES.values[:5])
    # The best rate is larger where beta is: one after the other would end elsewhere.
    cell = cell_of(SMALL, lambda x, b, k: 0.5 - 0.03 * (x - 1 - b) ** 2 + 0.04 * b, rates, few)
    (at,) = tuned(cell, rule=None).cells
    assert at.best.values == {RATE: 8e-4, "recipe.beta": 0.02}


def test_one_cell_has_no_rules_and_says_nothing_of_n() -> None:
    tuning = tuned(ONE)
    assert (tuning.best_gain, tuning.preferences, tuning.rules) == (None, (), ())
    assert len(summary(tuning).splitlines()) == 2


def test_which_n_is_better_by_value_is_said() -> None:
    # At small rates the small n learns faster, at large ones it falls behind.
    tuning = tuned(cell_of(SMALL, peak(2.0, 0.015)), cell_of(LARGE, peak(5.0, 0.015)))
    gains = {each.values[RATE]: each.gain for each in tuning.preferences}
    assert gains[RATES.values[0]].high < 0 < gains[RATES.values[7]].low
    assert "which of the two n is better depends on the value" in summary(tuning).replace("\n", " ")
    assert abs(known(tuning.best_gain).median) < 0.02


def test_one_seed_names_the_largest_mean_and_one_value_is_not_said_to_be_the_best() -> None:
    alone = tuned(kept(ONE, lambda reading: reading.cell.seed == 0))
    assert (alone.cells[0].best.interval, alone.cells[0].optimum) == (None, None)
    assert "no value has two seeds" in summary(alone)
    only = tuned(kept(ONE, lambda reading: reading.cell.num_generations == RATES.places[2]))
    assert only.cells[0].best.interval is not None
    assert only.cells[0].best.probability_best is None
    said = summary(only).splitlines()[0]
    assert "recipe.learning_rate = 0.0004 is the only recipe.learning_rate with records" in said
    assert "chance" not in said


def test_the_rule_that_loses_least_is_handed_on_where_the_recipes_own_costs_the_margin() -> None:
    recipe = make_config("recipe.reference_completions=128").recipe
    assert settings_for_the_grid(rated(2.2, noise=0.004), recipe, 0.02) == {RATE: 4e-4}
    changed = settings_for_the_grid(rated(4.0, noise=0.004), recipe, 0.02)
    assert changed["recipe.learning_rate_rule"] == "linear"
    # The anchor has a quarter of the reference's completions: the same rate there.
    assert changed[RATE] == pytest.approx(4e-4 * 4)


def test_nothing_is_handed_on_where_nothing_is_learned_or_a_value_was_not_tried() -> None:
    tuning = rated(2.0)
    empty = replace(ONE, data=lacking(ONE.data, lambda cell: True))
    for lacks, said in (
        (replace(tuning, base_reward=0.9), "no value learns anything"),
        (replace(tuning, untried=({RATE: 1e-4},)), "Not tried at every cell"),
        (tuned(empty, empty), "no value can be judged"),
    ):
        assert settings_for_the_grid(lacks, make_config().recipe, 0.02) == {}
        assert said in summary(lacks).replace("\n", " ")


def test_values_that_no_run_was_read_of_are_untried() -> None:
    part = lacking(ONE.data, lambda cell: cell.num_generations == RATES.places[0])
    assert tuned(replace(ONE, data=part)).untried == ({RATE: RATES.values[0]},)


def test_a_value_loses_the_same_by_itself_and_by_the_rule_that_keeps_it() -> None:
    tuning = rated(3.0)
    (own,) = [t for t in tuning.cells[1].tried if t.values == tuning.cells[0].best.values]
    assert tuning.rules[0].loss == pytest.approx(own.loss, abs=1e-6)
