"""Malformed and odd tables: what is refused, in which words, and what is read with a note."""

from typing import Any

import pandas
import pytest

from isosweep.config.compose import config_of
from isosweep.errors import SettingError
from isosweep.importing.columns import find_columns
from isosweep.importing.plan import further_plan, imported_plan
from isosweep.importing.runs import ForeignRun, read_runs
from isosweep.plan.cells import Plan
from isosweep.plan.document import Note

STEPS = (0, 10, 20, 40, 80)


def table(**columns: Any) -> pandas.DataFrame:
    """Runs of n = 2, 4 with two seeds, evaluated at five steps; columns given are put in place."""
    rows: list[dict[str, Any]] = [
        {"run": f"n{n}s{seed}", "n": n, "B": 8, "seed": seed, "step": step}
        for n in (2, 4)
        for seed in (0, 1)
        for step in STEPS
    ]
    frame = pandas.DataFrame(rows)
    frame["eval_reward"] = [0.2 + 0.005 * row["step"] + 0.01 * row["seed"] for row in rows]
    return frame.assign(**columns)


def read(frame: pandas.DataFrame, *overrides: str) -> tuple[list[ForeignRun], list[Note], Plan]:
    config = config_of(["mode=import", *overrides])
    unit = config.budget_unit if "budget_unit" in config.given else None
    columns = find_columns(frame, config.importing, unit)
    runs, notes = read_runs(frame, columns, config.importing)
    asked = config.budgets if "budget" in config.given else None
    plan, kept, more = imported_plan(runs, columns.unit, asked)
    return kept, [*notes, *more], plan


def at(row: int, value: Any, column: str) -> pandas.DataFrame:
    """The table with another value in one row."""
    frame = table().astype({column: object})
    frame.loc[row, column] = value
    return frame


TOKENS = [100.0 * step for _ in range(4) for step in STEPS]
FALLING = [*TOKENS[:3], 500.0, *TOKENS[4:]]
REWARDS = table()["eval_reward"].tolist()

# The table, overrides, the setting that is refused, and a part of the rule.
REFUSED: dict[str, tuple[pandas.DataFrame, tuple[str, ...], str, str]] = {
    "a name of two columns": (
        pandas.concat([table(), table()[["seed"]]], axis=1),
        (),
        "import.columns.seed",
        "two columns",
    ),
    "no n": (table().drop(columns="n"), (), "import.columns.n", "rollouts per problem"),
    "no B": (table().drop(columns="B"), (), "import.columns.B", "problems per batch"),
    "a wrong name": (
        table(),
        ("import.columns={reward:eval_rewrd}",),
        "import.columns.reward",
        "no column",
    ),
    "two rewards": (
        table(**{"val-core/a/reward/mean@8": 0.1, "val-core/b/reward/mean@8": 0.2}).drop(
            columns="eval_reward"
        ),
        (),
        "import.columns.reward",
        "held-out reward",
    ),
    "percent": (
        table(eval_reward=[100 * r for r in REWARDS]),
        (),
        "import.columns.reward",
        "from 0 to 1",
    ),
    "percent signs": (at(3, "35%", "eval_reward"), (), "import.columns.reward", "no number"),
    "n is words": (at(3, "eight", "n"), (), "import.columns.n", "row 4 has 'eight'"),
    "n is a part": (table(n=2.5), (), "import.columns.n", "no count"),
    "n changes": (at(3, 16, "n"), (), "import.columns.n", "has both"),
    "a negative step": (at(0, -1, "step"), (), "import.columns.step", "no count of steps"),
    "compute falls": (table(tokens=FALLING), (), "import.columns.compute", "can only grow"),
    "unit not known": (
        table(cost=TOKENS),
        ("import.columns={compute:cost}",),
        "import.columns.compute",
        "unit",
    ),
    "no tokens": (
        table(),
        ("budget_unit=tokens",),
        "import.columns.compute",
        "usual name of tokens",
    ),
    "one n": (table(n=4), (), "import.columns.n", "every run has n=4"),
    "odd batch": (
        table(generation_batch_size=9).drop(columns="B"),
        (),
        "import.columns.completions",
        "B = 4.5, no count",
    ),
    "budget too large": (table(), ("budget=1e9",), "budget", "the longest ends at"),
    "counts of nothing": (
        table(successes="[1,0]"),
        (),
        "import.columns.successes",
        "how many samples",
    ),
    "too many right": (
        table(successes="[9,0]", samples=4),
        (),
        "import.columns.successes",
        "whole numbers from 0 to 4",
    ),
    "the reward of training": (
        table().rename(columns={"eval_reward": "train/accuracy"}),
        (),
        "import.columns.reward",
        "held-out reward",
    ),
    "compute stands still": (
        table(tokens=[5000.0] * 20),
        (),
        "import.columns.compute",
        "can only grow. Nearest choice that works: import.per_step=true",
    ),
    "runs that nothing tells apart": (
        table().drop(columns=["run", "seed"]),
        (),
        "import.columns.run",
        "no column tells runs or seeds apart, and rows go back",
    ),
    "no rows with two": (table()[::5], (), "import.columns.reward", "no run has two rewards"),
}


def test_completions_of_a_step_are_n_of_each_problem() -> None:
    frame = table()
    frame["generation_batch_size"] = 8 * frame["n"]
    runs, _, _ = read(frame.drop(columns="B"))
    assert [run.problems_per_batch for run in runs] == [8, 8, 8, 8]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_that_cannot_be_right_is_refused_in_words(kind: str) -> None:
    frame, overrides, setting, rule = REFUSED[kind]
    with pytest.raises(SettingError) as refused:
        read(frame, *overrides)
    assert refused.value.setting == setting
    assert rule in str(refused.value)


REPEATED = pandas.concat([table(), table()[3:4].assign(eval_reward=0.9)], ignore_index=True)
SHORT = table()[~((table()["run"] == "n2s1") & (table()["step"] > 10))]
TWICE = [t if k % 2 else None for k, t in enumerate(TOKENS)]

# The table, overrides, and the note that is made.
NOTED: dict[str, tuple[pandas.DataFrame, tuple[str, ...], str]] = {
    "logged twice": (REPEATED, (), "repeated"),
    "n = 1 as well": (table(n=[1] * 5 + [2] * 5 + [4] * 10), ("budget=[300,1000]",), "lone n"),
    "no rewards in a run": (table(eval_reward=[None] * 5 + REWARDS[5:]), (), "no reward"),
    "same seed": (table(seed=0), (), "same seed"),
    "no seed": (table().drop(columns="seed"), (), "no seeds"),
    "compute in other rows": (table(tokens=TWICE), (), "interpolated"),
    "steps from 0": (
        table(tokens=[t + 100 for t in TOKENS]),
        (),
        "counted from zero",
    ),
    "broken off": (SHORT, ("budget=[1000,2000]",), "short"),
    "training's reward": (table().rename(columns={"eval_reward": "reward"}), (), "training reward"),
    "two recipes": (table(learning_rate=[1e-5] * 5 + [1e-6] * 15), (), "settings differ"),
}


@pytest.mark.parametrize("kind", NOTED)
def test_an_odd_table_is_read_with_a_note(kind: str) -> None:
    frame, overrides, note = NOTED[kind]
    runs, notes, plan = read(frame, *overrides)
    assert note in {each.kind for each in notes}
    assert runs
    assert plan.cells


def two_mini_batches() -> pandas.DataFrame:
    """The table twice: with one update on each batch of rollouts, and with four."""
    parts = [table(run=table()["run"] + f"m{m}", ppo_mini_batch_size=m) for m in (8, 2)]
    return pandas.concat(parts, ignore_index=True)


@pytest.mark.parametrize("named", [True, False])
def test_runs_that_differ_in_updates_on_a_batch_are_variants(named: bool) -> None:
    frame = two_mini_batches()
    runs, notes, plan = read(frame if named else frame.drop(columns="run"))
    assert [axes["import.updates_per_batch"] for axes in plan.axes] == [1, 4]
    assert len(runs) == 8
    assert {run.seed for run in runs} == {0, 1}
    kinds = {note.kind for note in notes}
    assert "updates differ" in kinds
    assert "same seed" not in kinds
    further = further_plan(plan, [8], 1)
    assert further.axes == plan.axes
    assert len({run.run_id for run in further.runs}) == len(further.runs) == 2 * 3 * 3


def test_mini_batches_that_grow_with_the_batch_are_one_setting() -> None:
    sizes = [8] * 10 + [16] * 10
    _, notes, plan = read(table(**{"actor.ppo_mini_batch_size": sizes, "B": sizes}))
    assert plan.axes == [{}]
    assert not {"updates differ", "several updates"} & {note.kind for note in notes}


def test_steps_that_share_a_batch_of_rollouts_count_it_once() -> None:
    runs, notes, _ = read(table(num_iterations=2, steps_per_generation=4))
    assert runs[0].compute.tolist() == [step * 2 * 8 / 2 for step in STEPS]
    more = table(num_iterations=2, steps_per_generation=4, gradient_accumulation_steps=2)
    assert read(more)[0][0].compute.tolist() == [step * 2 * 8 / 4 for step in STEPS]
    (note,) = [note for note in notes if note.kind == "several updates"]
    assert (note.count, note.value) == (4, 2.0)
    assert type(note.value) is float


def test_each_number_of_updates_on_a_batch_is_noted() -> None:
    _, notes, _ = read(table(num_iterations=[2] * 10 + [4] * 10))
    found = [note for note in notes if note.kind == "several updates"]
    assert [(note.count, note.value) for note in found] == [(2, 4.0), (2, 2.0)]


def test_seeds_that_are_text_are_numbered() -> None:
    runs, notes, _ = read(table(seed=table()["seed"].map({0: "b", 1: "a"})))
    assert [(run.name, run.seed) for run in runs][:2] == [("n2s1", 0), ("n2s0", 1)]
    assert "same seed" not in {note.kind for note in notes}


def test_the_last_of_repeated_evaluations_counts() -> None:
    runs, _, _ = read(REPEATED)
    assert runs[0].rewards.tolist()[3] == 0.9


def test_what_is_usual_is_found_and_rollouts_are_counted() -> None:
    frame = table().rename(
        columns={"n": "actor_rollout_ref.rollout.n", "B": "data.train_batch_size"}
    )
    runs, notes, plan = read(frame)
    # n = 2 ends at half the compute of n = 4.
    assert [note.kind for note in notes] == ["further"]
    assert plan.budget_unit == "rollouts"
    assert runs[0].compute.tolist() == [step * 2 * 8 for step in STEPS]
    assert [(run.num_generations, run.seed) for run in runs] == [(2, 0), (2, 1), (4, 0), (4, 1)]


def test_a_number_that_all_rows_share_is_shown_as_a_whole_one() -> None:
    config = config_of(["mode=import", "import.columns={B:64}"])
    assert str(find_columns(table(), config.importing, None).found["B"]) == "64"


def test_a_range_and_compute_of_each_row_are_taken_as_they_are_said() -> None:
    each = [0.0 if step == 0 else 10_000.0 for _ in range(4) for step in STEPS]
    frame = table(eval_reward=[100 * reward for reward in REWARDS], spent=each)
    said = ("import.reward_range=[0,100]", "import.columns={compute:spent}", "import.per_step=true")
    runs, _, _ = read(frame, *said, "budget_unit=tokens")
    assert runs[0].rewards.tolist() == pytest.approx(REWARDS[:5])
    assert runs[0].compute.tolist() == [0, 10_000, 20_000, 30_000, 40_000]


def test_a_run_has_cells_where_it_can_be_read_and_ends_where_it_ended() -> None:
    frame = table()[~((table()["run"] == "n2s1") & (table()["step"] > 40))]
    _, _, plan = read(frame, "budget=[320,640,1280]")
    ends = {(run.num_generations, run.seed): run.milestones for run in plan.runs}
    assert ends == {
        (2, 0): (320, 640, 1280),
        (2, 1): (320, 640),
        (4, 0): (320, 640, 1280),
        (4, 1): (320, 640, 1280),
    }
    # It is missing where it did not come, as one that was never finished is.
    assert [c.budget for c in plan.cells if (c.num_generations, c.seed) == (2, 1)][-1] == 1280
    assert all(cell.planned_flops is None and cell.device_hours is None for cell in plan.cells)


def test_errors_are_told_or_a_binomials_or_nobodys() -> None:
    told, _, _ = read(table(stderr=0.02))
    counted, _, _ = read(table(problems=100, samples=4))
    plain, _, _ = read(table())
    assert told[0].errors is not None
    assert told[0].errors.tolist() == [0.02] * 5
    assert counted[0].errors is not None
    assert counted[0].errors[0] == pytest.approx((0.2 * 0.8 / 400) ** 0.5, rel=0.02)
    assert plain[0].errors is None


def test_a_run_that_is_alone_with_its_n_needs_no_seed() -> None:
    alone = table().drop(columns="seed").query("not run.str.endswith('s1')")
    assert "no seeds" not in {note.kind for note in read(alone)[1]}


def test_runs_that_end_a_little_short_were_to_end_where_the_others_do() -> None:
    frame = table()
    last = frame["step"] == STEPS[-1]
    # 1% short, and one seed that broke off halfway, which is no reason to read none of them.
    frame.loc[last & (frame["n"] == 4), "step"] = 79
    frame.loc[last & (frame["run"] == "n2s1"), "step"] = 45
    spent = ("import.columns={compute:spent}", "budget_unit=rollouts")
    _, _, plan = read(frame.assign(spent=frame["step"] * 100.0), *spent)
    assert plan.budgets[-1] == 7900
    assert sum(run.milestones[-1] == 7900 for run in plan.runs) == 3
