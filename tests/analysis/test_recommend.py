"""What is recommended, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.analysis.curves import SweepData
from isosweep.analysis.load import load_sweep
from isosweep.analysis.recommend import recommend
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.config.analysis import AnalysisConfig
from isosweep.costs.steps import steps_for
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.modes.recommend import recommend_split
from isosweep.store.paths import SweepPaths
from tests.analysis.sweeps import BUDGETS, COST, REWARD, SMALL, make_plan, peaked, write_sweep
from tests.conftest import make_config
from tests.modes.looked_after import terminal

GROWING = peaked(lambda C: 2 * (C / BUDGETS[0]) ** 0.7)
Found = tuple[SweepData, Findings]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Found:
    paths = write_sweep(tmp_path_factory.mktemp("sweep"), REWARD, plan=make_plan(batches=(4, 8)))
    return found_in(paths)


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return found_in(write_sweep(tmp_path_factory.mktemp("growing"), GROWING, plan=make_plan()))


def found_in(paths: SweepPaths) -> Found:
    """What a sweep shows."""
    data = load_sweep(paths)
    return data, find(data, AnalysisConfig())


def test_the_best_n_lies_where_runs_are(sweep: Found) -> None:
    data, findings = sweep
    surface = findings.surface
    assert surface is not None
    # Nobody has run n above 16 with B = 8, where the surface is as high as it likes.
    supported, draws = surface.supported.copy(), surface.draws.copy()
    supported[:, surface.log2_n > 4, 1] = False
    draws[:, ~supported] = 9.0
    changed = replace(findings, surface=replace(surface, supported=supported, draws=draws))
    best = recommend(data, changed, 22e6, extrapolate=False).n_star
    assert best is not None
    assert best.high < 12


def test_an_end_that_is_open_says_so(tmp_path: Path) -> None:
    plan = make_plan(generations=(4, 8, 16))
    data = load_sweep(write_sweep(tmp_path, peaked(lambda C: 4 * C / BUDGETS[0]), plan=plan))
    findings = find(data, AnalysisConfig())
    first, last = (recommend(data, findings, at, extrapolate=False) for at in (2e6, 3.2e7))
    beyond = recommend(data, findings, 6.4e7, extrapolate=True)
    for split, ends in ((first, (True, False)), (last, (False, True)), (beyond, (False, True))):
        assert split.n_star is not None
        assert (split.n_star.open_below, split.n_star.open_above) == ends


def test_t_is_whole_generations_of_several_updates(sweep: Found) -> None:
    data, findings = sweep
    curves = tuple(replace(curve, generations=curve.steps // 4) for curve in data.curves)
    split = recommend(replace(data, curves=curves), findings, 9e6, extrapolate=False)
    cost = split.num_generations * split.problems_per_batch * COST
    assert split.num_steps == steps_for(9e6, cost, 4)
    assert split.num_steps % 4 == 0


def test_beyond_the_largest_budget_it_is_refused_unless_asked(growing: Found) -> None:
    refusal = r"lies 2 times beyond 3\.2e7.*budget=3\.2e\+07 \(or analysis\.extrapolate=true"
    with pytest.raises(SettingError, match=refusal):
        recommend(*growing, 6.4e7, extrapolate=False)
    asked = recommend(*growing, 6.4e7, extrapolate=True)
    # n* is 22.6 there, and 13.9 at the last budget.
    assert asked.num_generations in (16, 32)
    assert asked.n_star is not None
    assert 16 < asked.n_star.median < 32
    assert asked.n_star.low < 22.6 < asked.n_star.high
    assert asked.n_d is not None
    assert asked.n_d.median < asked.n_star.median
    assert (asked.basis.kind, asked.basis.budgets) == ("growth", (BUDGETS[-1],))
    assert asked.factor == 2
    assert (asked.reward, asked.interval) == (None, None)
    # The further off, the less is known.
    further = recommend(*growing, 1.28e8, extrapolate=True).n_star
    assert further is not None
    assert further.median > asked.n_star.median


def test_beyond_an_n_that_rests_it_stays(tmp_path: Path) -> None:
    reward = peaked(lambda C: 6.0)
    data = load_sweep(write_sweep(tmp_path, reward, plan=make_plan()))
    findings = find(data, AnalysisConfig(quantity="best"))
    split = recommend(data, findings, 6.4e7, extrapolate=True)
    assert split.num_generations in (4, 8)
    assert split.n_star is not None
    assert split.n_star.low < 6 < split.n_star.high


def test_a_budget_below_all_measured_is_refused(sweep: Found) -> None:
    with pytest.raises(SettingError, match=r"Nearest choice that works: budget=2e\+06"):
        recommend(*sweep, 1e5, extrapolate=True)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("model=qwen-7b", r"^model=qwen-7b: sweep has model=tiny,.*: model=tiny, or another"),
        ("hardware=h100", r"^hardware=h100: sweep has hardware=cpu"),
        ("recipe.learning_rate=1e-6", r"^recipe\.learning_rate=1e-06: sweep has recipe\."),
        ("grid.seeds=[7]", r"^grid\.seeds=\[7\]: sweep has grid\.seeds=\[0,1,2\]"),
        ("budget_unit=rollouts", r"^budget_unit=rollouts: sweep has budget_unit=flops"),
        ("+experiment=group_size", r"^budget_unit=rollouts: sweep has budget_unit=flops"),
    ],
)
def test_settings_that_the_sweep_does_not_have_are_refused(
    typed: str, words: str, tmp_path: Path
) -> None:
    paths = write_sweep(tmp_path / "sweeps", REWARD, plan=SMALL)
    where = f"sweeps_dir={tmp_path / 'sweeps'}"
    write_json(paths.config, make_config(where).model_dump())
    with pytest.raises(SettingError, match=words):
        recommend_split(make_config("mode=recommend", "sweep=sweep", where, typed), terminal())
