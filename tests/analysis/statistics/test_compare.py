"""Sweeps beside each other, with planted differences."""

from dataclasses import replace

import pytest

from isosweep.analysis.pages.comparison import best_table, last_shared, summarise
from isosweep.analysis.pages.tables import MISSING
from isosweep.analysis.simulation.presets import delayed_worlds
from isosweep.analysis.simulation.records import simulate_records
from isosweep.analysis.simulation.sweep import simulated_sweep, wide_config
from isosweep.analysis.statistics.compare import Entry, compare, scored_otherwise, sweep_labels
from isosweep.analysis.statistics.findings import find
from isosweep.config.base import flattened
from isosweep.words.numbers import short
from tests.analysis.statistics.planted import CONFIG, known
from tests.conftest import make_config, plan_of


@pytest.fixture(scope="module")
def slow() -> Entry:
    grid = ("grid.num_generations=[8,32,128]", "grid.problems_per_batch=[128]")
    plan = plan_of(wide_config("budget=logspace:1e18:1e21:7", *grid, "grid.seeds=[0,1,2]"))
    world = delayed_worlds(10.0**19.2, 8, 128)["quiet"]
    records = simulate_records(world, plan, 0, num_problems=1000, samples_per_problem=16)
    data = simulated_sweep(plan, records)
    return Entry(name="slow", data=data, findings=find(data, CONFIG))


def test_a_variant_that_came_less_far_keeps_no_other_from_its_last_budget(slow: Entry) -> None:
    made = [replace(slow, name=name) for name in ("whole", "fallen")]
    comparison = compare(made, CONFIG, "variant")
    assert {at.better for at in comparison.frontiers if at.entry == "whole"} == {None}
    # What is the same is as likely to be above as below.
    better = [known(at.better) for at in comparison.frontiers if at.entry == "fallen"]
    assert better == pytest.approx([0.5] * len(better), abs=0.1)
    *_, before, last = sorted({at.budget for at in comparison.frontiers})
    came = tuple(at for at in comparison.frontiers if at.entry == "whole" or at.budget <= before)
    for kind, budgets in (("variant", [last, before]), ("sweep", [before, before])):
        cut = replace(comparison, frontiers=came, kind=kind)  # type: ignore[arg-type]
        assert [at.budget for at in last_shared(cut)] == budgets
        (said,) = summarise(cut)
        assert said.startswith(f"At {short(budgets[0])} FLOPs, ")
        assert best_table(cut, last_shared(cut)).rows[-1][-1].endswith("%")
    apart = replace(comparison, frontiers=came, scored_otherwise=("task.name",))
    assert "task.name" in summarise(apart)[0]
    assert best_table(apart, last_shared(apart)).rows[-1][-1] == MISSING


def test_what_a_reward_is_of_is_said_by_settings_that_change_it(slow: Entry) -> None:
    def differ(value: str, *overrides: str, of_set: str | None = None) -> list[str]:
        settings = [
            flattened(make_config(*overrides, *more).model_dump()) for more in ((), (value,))
        ]
        entries = [replace(slow, settings=each) for each in settings]
        return scored_otherwise(entries, of_set)

    assert differ("task.data_seed=1") == ["task.data_seed"]
    assert differ("evaluation.temperature=0.5") == ["evaluation.temperature"]
    # Held-out digits follow those that are trained on.
    assert differ("task.num_train_problems=48") == ["task.num_train_problems"]
    math = ("task=math", "task.max_completion_tokens=64", "task.completion_tokens=32")
    assert not differ("task.num_train_problems=48", *math)
    for unseen in ("task.name=mine", "task.prompt_tokens=9", "evaluation.records_per_decade=9"):
        assert not differ(unseen)
    assert not differ("task.mixture.shares={long:0.4,short:0.6}", "task=sort_mix")
    of_set = ("++evaluation.sets.a.temperature=0.5", "evaluation.sets={a:{}}")
    assert not differ(*of_set)
    assert differ(*of_set, of_set="a") == ["evaluation.sets.a.temperature"]


def test_sweeps_are_called_by_the_settings_that_differ() -> None:
    def document(model: str, beta: float, **more: object) -> dict[str, object]:
        size = {"layers": len(model)}
        named = {"model": {"name": model, **size}, "recipe": {"name": "grpo", "beta": beta}}
        return {**named, "sweeps_dir": model, "launcher": {"name": model}, **more}

    names = ["one", "two"]
    of_model = [document("qwen-0.5b", 0.0), document("qwen-7b", 0.0)]
    assert sweep_labels(names, of_model) == ["qwen-0.5b", "qwen-7b"]
    of_both = [document("qwen-0.5b", 0.0), document("qwen-7b", 0.01)]
    assert sweep_labels(names, of_both) == ["qwen-0.5b beta=0", "qwen-7b beta=0.01"]
    budgets = [document("tiny", 0.0, budget=[C]) for C in (20500.0, 2e18)]
    assert sweep_labels(names, budgets) == ["budget=[20500]", "budget=[2e18]"]
    # Nothing that matters differs, two are alike, or too much differs.
    assert sweep_labels(names, [document("tiny", 0.0, seed=i) for i in (0, 1)]) == names
    three = [*of_model, of_model[0]]
    assert sweep_labels(["a", "b", "c"], three) == ["a", "b", "c"]
    many = [document("tiny", 0.0, task={str(k): k * i for k in range(1, 5)}) for i in (1, 2)]
    assert sweep_labels(names, many) == names
