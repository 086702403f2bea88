"""The answer in three sentences says what the findings say."""

from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import find
from isosweep.analysis.statistics.verdict import Verdict
from isosweep.analysis.summary import summarise
from isosweep.config.analysis import AnalysisConfig
from tests.analysis.sweeps import (
    BUDGETS,
    RewardAt,
    make_plan,
    paths_in,
    peaked,
    records_file,
    write_plan,
    write_sweep,
)

CONFIG = AnalysisConfig(name="default")


@pytest.mark.parametrize(
    ("reward", "verdict", "words"),
    [
        (peaked(lambda C: min(8.0, 2 * C / BUDGETS[0])), "saturated", "has stopped growing"),
        (peaked(lambda C: 2 * C / BUDGETS[0]), "growing", "still grows"),
        (peaked(lambda C: 8.0), "constant", "does not change"),
        (peaked(lambda C: 64 * BUDGETS[0] / C), "fell", "smaller at the largest budget"),
        (peaked(lambda C: 8.0, fall=0.0), "n does not matter", "no difference that matters"),
    ],
)
def test_three_sentences_state_choice_sureness_and_growth(
    reward: RewardAt, verdict: Verdict, words: str, tmp_path: Path
) -> None:
    plan = make_plan(generations=(2, 4, 8, 16, 32, 64), seeds=(0, 1, 2, 3))
    data = load_sweep(write_sweep(tmp_path, reward, plan=plan, noise=0.002))
    findings = find(data, CONFIG)
    assert findings.saturation.verdict == verdict
    what, sure, grows = summarise(data, findings)
    at = findings.frontier.budgets[-1]
    cell, interval = at.best.cell, at.best.interval
    assert interval is not None
    assert f"n = {cell.num_generations}, B = 4, T = {cell.num_steps}" in what
    assert f"expected reward {at.best.expected:.3f}" in what
    assert f"{interval[0]:.3f} to {interval[1]:.3f}" in what
    assert "0.200 before training" in what
    place = at.choices.index(at.best)
    for choice in at.choices[max(0, place - 1) : place + 2]:
        if choice != at.best:
            assert f"n = {choice.num_generations} costs at most {choice.loss_upper:.3f}" in sure
    for n in at.candidates:
        assert n == at.best.num_generations or str(n) in sure.split(" cannot ")[0]
    assert words in grows


def test_one_seed_gives_no_interval_and_no_cost(tmp_path: Path) -> None:
    data = load_sweep(write_sweep(tmp_path, peaked(lambda C: 8.0), plan=make_plan(seeds=(0,))))
    what, sure, _ = summarise(data, find(data, CONFIG))
    assert "measured reward" in what
    assert "interval" not in what
    assert "no n can be distinguished" in sure


def test_without_a_record_nothing_is_recommended(tmp_path: Path) -> None:
    write_plan(paths_in(tmp_path), make_plan())
    data = load_sweep(paths_in(tmp_path))
    (only,) = summarise(data, find(data, CONFIG))
    assert "nothing to recommend" in only


def test_a_budget_that_no_run_reached_is_not_spoken_for(tmp_path: Path) -> None:
    plan = make_plan(generations=(4,), seeds=(0,))
    paths = write_sweep(tmp_path, peaked(lambda C: 8.0), plan=plan)
    records = records_file(paths, "run-n4-B4-s0")
    records.write_text("".join(records.read_text().splitlines(keepends=True)[:-1]))
    data = load_sweep(paths)
    what, sure, _ = summarise(data, find(data, CONFIG))
    assert what.startswith("At 1.6e7 FLOPs, the largest budget that a run has reached, use n = 4")
    assert "No other n was measured" in sure


def test_a_search_says_how_much_was_trained_and_a_grid_does_not(tmp_path: Path) -> None:
    plan = make_plan(generations=(2, 4, 8, 16), seeds=(0, 1))
    data = load_sweep(write_sweep(tmp_path, peaked(lambda C: 8.0), plan=plan, noise=0.002))
    half = len(data.curves) // 2
    left_out = [
        replace(
            curve,
            **{name: getattr(curve, name)[:0] for name in ("steps", "compute", "reward")},
        )
        for curve in data.curves[half:]
    ]
    searched = replace(
        data,
        curves=(*data.curves[:half], *left_out),
        config_document={"search": {"kind": "frontier"}},
    )
    findings = find(data, CONFIG)
    assert len(summarise(data, findings)) == 3
    sentence = summarise(searched, findings)[3]
    assert sentence.startswith(f"A search chose what was trained: {half} of {2 * half} runs, with ")
    assert "50% of the grid's compute; " in sentence
