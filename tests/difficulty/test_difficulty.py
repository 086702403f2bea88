"""Problems chosen by how often the base model solves them: measuring, choosing, reporting."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.config.difficulty import DIFFICULTIES
from isosweep.config.evaluation import on_all
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import TaskConfig
from isosweep.difficulty.measurement import (
    Measurement,
    buckets_of,
    measurement_path,
    read_measurement,
)
from isosweep.difficulty.selection import (
    ChosenVariant,
    choose_variants,
    load_selection,
    select,
    store_selection,
)
from isosweep.errors import RecordError, SettingError
from isosweep.files import append_line
from isosweep.models.weights import weights
from isosweep.modes.difficulty import measure, measured_configs
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.paths import RunPaths
from isosweep.tasks import problem_pool, problem_sets
from isosweep.tasks.sets import problems_of_sets
from tests.conftest import make_config, set_of
from tests.modes.looked_after import terminal

SIZES = ("task.num_train_problems=24", "task.num_eval_problems=8")
K = 16


def config_in(folder: Path, *more: str) -> SweepConfig:
    return make_config(f"sweeps_dir={folder / 'sweeps'}", "difficulty.max_problems=200", *more)


def write_measurement(config: SweepConfig, successes: list[int], total: int = 200) -> Path:
    """A measurement as `mode=difficulty` writes it, with these successes of 16."""
    path = measurement_path(config, Path(config.sweeps_dir).absolute())
    path.parent.mkdir(parents=True, exist_ok=True)
    first = {"kind": "difficulty", "version": 1, "samples_per_problem": K, "digest": "d"}
    append_line(path, {**first, "total": total}, sync=False)
    pool = problem_pool(config.task, total)
    entries = [
        {"problem": vars(problem), "successes": count}
        for problem, count in zip(pool, successes, strict=False)
    ]
    for start in range(0, len(entries), 50):
        append_line(path, {"problems": entries[start : start + 50]}, sync=False)
    return path


# 200 problems: 40 never solved, 40 once, 40 in the easy range, 40 in the very easy one, 40 nearly
# always.
SUCCESSES = [(0, 1, 6, 12, 15, 0, 1, 15, 12, 6)[i % 10] for i in range(200)]


def measured(config: SweepConfig) -> tuple[Measurement, dict[str, float]]:
    measurement = read_measurement(write_measurement(config, SUCCESSES))
    rates = zip((p.problem_id for p in measurement.problems), measurement.rates, strict=True)
    return measurement, dict(rates)


def test_a_measurement_is_of_how_it_was_sampled(tmp_path: Path) -> None:
    own = ("temperature=0.7", "temperature=0.9", "samples_per_problem=3", "seed=9")
    trained = ("recipe.temperature=0.5", "recipe.top_p=0.9", "task.max_completion_tokens=3")
    ways = (*(f"difficulty.{way}" for way in own), *trained, "model.system_prompt=Sort.")
    configs = [config_in(tmp_path), *(config_in(tmp_path, way) for way in ways)]
    assert len({measurement_path(config, tmp_path) for config in configs}) == len(configs)


@pytest.mark.train
def test_a_measurement_is_what_is_sampled_before_training(tmp_path: Path) -> None:
    from isosweep.training.evaluate import Evaluator
    from isosweep.training.policy import load_policy

    sizes = ("difficulty.max_problems=24", "difficulty.samples_per_problem=4")
    sampling = ("recipe.temperature=0.7", "recipe.top_p=0.9", "task.max_completion_tokens=6")
    same = ("evaluation.samples_per_problem=4", "evaluation.temperature=0.7")
    config = config_in(tmp_path, *sampling, *sizes, *same)
    (single,) = measured_configs(config)
    measured = measure(single, terminal())
    spec = run_spec(config, num_generations=2, problems_per_batch=1, seed=0, micro_batch=1)
    policy, tokenizer = load_policy(spec, weights(spec.model))
    found = Evaluator(spec, tokenizer, problems=measured.problems, top_p=0.9)(policy)
    assert found.successes == measured.successes
    assert 0 < sum(found.successes) < 4 * 24


def test_a_mix_has_its_shares_and_no_problem_twice(tmp_path: Path) -> None:
    mix = "task.difficulty={hard:0.25,extremely_hard:0.25,easy:0.5}"
    config = config_in(tmp_path, mix, "task.num_train_problems=61", "task.num_eval_problems=8")
    measurement, rates = measured(config)
    sets = select(config.task, measurement).sets
    counts = Counter(rates[problem.problem_id] for problem in sets.heldout)
    assert (counts[0.0], counts[1 / K], counts[6 / K]) == (2, 2, 4)
    trained = Counter(rates[problem.problem_id] for problem in sets.training)
    assert sorted((trained[0.0], trained[1 / K])) == [15, 15]
    assert trained.total() == 61
    chosen = [problem.problem_id for problem in (*sets.training, *sets.heldout)]
    assert len(set(chosen)) == 69
    # The kinds are mixed: not one after the other.
    assert len({rates[problem.problem_id] for problem in sets.training[:12]}) > 1


def test_a_selection_does_not_depend_on_the_order_of_measuring(tmp_path: Path) -> None:
    config = config_in(tmp_path, "task.difficulty=[0,0.5]", *SIZES)
    measurement, _ = measured(config)
    turned = replace(
        measurement, problems=measurement.problems[::-1], successes=measurement.successes[::-1]
    )
    assert select(config.task, measurement).sha256 == select(config.task, turned).sha256
    other = config_in(tmp_path, "task.difficulty=[0,0.5]", *SIZES, "task.data_seed=1").task
    assert select(config.task, measurement).sha256 != select(other, measurement).sha256


@pytest.mark.parametrize("difficulty", ["hard", "{hard:0.9,easy:0.1}"])
def test_too_few_problems_are_told_by_range(difficulty: str, tmp_path: Path) -> None:
    asked = (f"task.difficulty={difficulty}", "task.num_eval_problems=20")
    config = config_in(tmp_path, *asked, "task.num_train_problems=150")
    measurement, _ = measured(config)
    with pytest.raises(SettingError, match=r"of 200 measured problems hard .* has 80 of the \d+ "):
        select(config.task, measurement)
    fewer = config_in(tmp_path, *asked, "task.num_train_problems=60")
    assert select(fewer.task, measurement)


def test_what_is_not_wholly_measured_is_planned_and_not_chosen_from(tmp_path: Path) -> None:
    axes = ("grid.axes={task.difficulty:[hard,easy]}", *SIZES)
    config = config_in(tmp_path, *axes)
    hard, easy = choose_variants(config, measured=False)
    assert hard.unmeasured
    # Runs of another difficulty are other runs, though it is not known yet on what.
    assert hard.config.task.selection_sha256 != easy.config.task.selection_sha256
    with pytest.raises(SettingError, match=r"has not been measured.*same command with mode=diff"):
        choose_variants(config)
    write_measurement(config_in(tmp_path), SUCCESSES[:150])
    with pytest.raises(SettingError, match="only 150 of 200 problems are measured"):
        choose_variants(config)


def test_planning_by_difficulty_reads_json_only(tmp_path: Path) -> None:
    task = ("task=reasoning_gym", "task.num_train_problems=40", "task.num_eval_problems=10")
    write_measurement(config_in(tmp_path, *task), SUCCESSES)
    words = ("isosweep", "mode=plan", "budget=1e12", "difficulty.max_problems=200", *task)
    code = (
        "import sys; from isosweep.__main__ import main\n"
        "for name in ('torch', 'trl', 'transformers', 'datasets', 'reasoning_gym'):\n"
        f"    sys.modules[name] = None\nsys.argv = {[*words, 'task.difficulty=hard']!r}\nmain()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_measurement_survives_torn_lines_and_repeated_batches(tmp_path: Path) -> None:
    path = write_measurement(config_in(tmp_path), SUCCESSES)
    whole = read_measurement(path)
    assert whole.complete
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1] + lines[2][:90] + "\n" + lines[1] + "".join(lines[2:]))
    assert read_measurement(path) == whole
    path.write_text('{"kind": "record"}\n')
    with pytest.raises(RecordError, match="not a measurement of difficulty"):
        read_measurement(path)


def test_a_worker_takes_only_the_problems_that_were_chosen(tmp_path: Path) -> None:
    write_measurement(config_in(tmp_path), SUCCESSES)

    def run_of(difficulty: str) -> RunSpec:
        config = config_in(tmp_path, f"task.difficulty={difficulty}", *SIZES)
        sizes = {"num_generations": 4, "problems_per_batch": 4, "seed": 0, "micro_batch": 4}
        return run_spec(choose_variants(config)[0].config, **sizes)

    # A run's identity has its problems.
    task = run_of("hard").task
    assert run_of("hard").run_id == run_of("[0,0.0625]").run_id
    assert len({run_of(difficulty).run_id for difficulty in ("hard", "easy", "null")}) == 3
    run = RunPaths(tmp_path / "sweeps" / "runs" / "r")
    with pytest.raises(RecordError, match=r"json: is missing"):
        load_selection(run, task)
    config = config_in(tmp_path, "task.difficulty=hard", *SIZES)
    (selection,) = choose_variants(config)[0].selections
    store_selection(run, selection)
    load_selection(run, task)
    assert task.selection_sha256 is not None
    path = run.selection(task.selection_sha256)
    path.write_text(path.read_text().replace('"answer": "', '"answer": "0', 1))
    with pytest.raises(RecordError, match="is not what was chosen at launch"):
        load_selection(run, task)


def test_tracking_shows_the_reward_of_each_difficulty() -> None:
    from isosweep.tracking.points import heldout_points
    from tests.tracking.sweeps import make_plan, record

    rates = {count / k for k in range(1, 129) for count in range(k + 1)}
    assert not [rate for rate in rates if not buckets_of(rate)]
    own = replace(record(1), successes=(1, 3, 4), samples_per_problem=4)
    (point,) = heldout_points([own], make_plan(), rates=(0.0625, 0.5, None))
    shown = {name: point.values[f"heldout/reward_{name}"] for name in ("hard", "easy")}
    assert shown == {"hard": 0.25, "easy": 0.75}


# Parts of a mixture, and further evaluation sets.

MIXED = (
    "task=sort_mix",
    *(f"task.mixture.parts.{part}.num_train_problems=12" for part in ("long", "short")),
    *(f"task.mixture.parts.{part}.num_eval_problems=8" for part in ("long", "short")),
    "task.mixture.parts.long.difficulty=hard",
)


def load_as_a_worker(variant: ChosenVariant, tasks: Iterable[TaskConfig], folder: Path) -> None:
    run = RunPaths(folder / "sweeps" / "runs" / "r")
    for selection in variant.selections:
        store_selection(run, selection)
    for task in tasks:
        load_selection(run, task)


def test_each_part_of_a_mix_is_a_set_beside_what_is_trained_on(tmp_path: Path) -> None:
    parts = ("hard", "easy")
    mix = ("task.difficulty={hard:0.5,easy:0.5}", *SIZES)

    def sets(number: int) -> list[str]:
        own = [text.removeprefix("task.") for text in (*SIZES, f"task.num_eval_problems={number}")]
        return [s for part in parts for s in set_of(part, "sort", *own, f"difficulty={part}")]

    config = config_in(tmp_path, *mix, *sets(12))
    _, rates = measured(config)
    (variant,) = choose_variants(config)
    assert variant.config.task == choose_variants(config_in(tmp_path, *mix))[0].config.task
    assert len(variant.selections) == 3
    found = problems_of_sets(variant.config, variant.problems.training)
    trained = {problem.problem_id for problem in variant.problems.training}
    for part in parts:
        low, high = DIFFICULTIES[part]
        assert len(found[part]) == 12
        assert all(low <= rates[problem.problem_id] <= high for problem in found[part])
        assert not trained & {problem.problem_id for problem in found[part]}
    load_as_a_worker(variant, (on.task for on in on_all(variant.config).values()), tmp_path)
    assert problems_of_sets(variant.config, variant.problems.training) == found
    more = config_in(tmp_path, *mix, *sets(80))
    with pytest.raises(SettingError) as caught:
        choose_variants(more)
    assert caught.value.setting == "evaluation.sets.hard.task.difficulty"


def test_a_part_has_problems_of_its_difficulty_and_the_others_are_as_they_were(
    tmp_path: Path,
) -> None:
    config = config_in(tmp_path, *MIXED)
    _, rates = measured(on_all(config)["long"])
    (variant,) = choose_variants(config)
    long, short = variant.config.task.parts.values()
    chosen = [*problem_sets(long).training, *problem_sets(long).heldout]
    assert len(chosen) == 20
    assert all(rates[problem.problem_id] <= 0.0625 for problem in chosen)
    assert short == config.task.parts["short"]
    drawn = [problem.prompt for problem in variant.problems.training]
    assert drawn[:12] == [problem.prompt for problem in problem_sets(long).training]
    assert len(variant.selections) == 1
    load_as_a_worker(variant, variant.config.task.parts.values(), tmp_path)
    assert problem_sets(variant.config.task) == variant.problems
    assert [single.task.name for single in measured_configs(config)] == ["long", "short"]
