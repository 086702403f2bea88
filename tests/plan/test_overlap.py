"""How a plan splits devices between a generator and its trainer."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

import isosweep
from isosweep.config.axes import combinations
from isosweep.errors import SettingError
from isosweep.launchers.sbatch import gpus_of_node
from isosweep.plan.candidates import Place
from isosweep.plan.cells import plan_from_document
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.overlap import overlaps
from isosweep.plan.rules import rules_of
from isosweep.plan.study import Study, plan_document, resolve
from tests.conftest import make_config

RUN = (
    *("model=qwen-0.5b", "hardware=h100", "budget=1e18", "generation=vllm"),
    *("recipe.rollout_lag=2", "grid.num_generations=[4,32,256]", "grid.problems_per_batch=[30]"),
    "grid.max_epochs=1000",
)
EIGHT = (*RUN, "hardware.devices_per_run=8")
SPLIT = (*EIGHT, "generation.overlap=true")


@pytest.fixture(scope="module")
def study() -> Study:
    return resolve(make_config(*SPLIT))


def test_the_split_that_is_planned_takes_the_least_time(study: Study) -> None:
    (table,) = study.candidates
    chosen = table.config.generation.overlap_devices
    assert chosen is not None
    hours = {}
    for devices in range(1, 8):
        (of,) = enumerate_candidates(
            combinations(make_config(*SPLIT, f"generation.overlap_devices={devices}"))
        )
        if of.feasible.sum() == table.feasible.sum():
            hours[devices] = of.run_seconds[of.feasible].sum()
    assert min(hours, key=lambda devices: hours[devices]) == chosen
    assert len(hours) > 1


def test_all_devices_are_counted_priced_and_asked_for(study: Study) -> None:
    (table,) = study.candidates
    longest = table.run_seconds[..., -1]
    for cell in study.plan.cells:
        i, j = table.pair(cell.num_generations, cell.problems_per_batch)
        assert cell.device_hours == pytest.approx(8 * longest[i, j] / 3600)
    assert gpus_of_node(make_config(*SPLIT, "launcher=slurm")) == 8


def test_a_run_is_that_of_the_devices_that_train(study: Study) -> None:
    (table,) = study.candidates
    sampling = table.config.generation.overlap_devices
    assert sampling is not None
    in_turn = resolve(make_config(*RUN, f"hardware.devices_per_run={8 - sampling}"))
    for spec in study.specs.values():
        assert (spec.devices, spec.devices_in_use) == (8 - sampling, 8)
        assert spec.generation.overlapping == sampling
        # What is not planned alike for memory and time alone.
        alike = [replace(each, micro_batch=spec.micro_batch) for each in in_turn.specs.values()]
        assert spec.run_id in {each.run_id for each in alike}


def test_the_best_split_of_each_n_and_what_it_saves_are_in_the_plan(study: Study) -> None:
    (found,) = overlaps(study.candidates)
    (table,) = study.candidates
    (in_turn,) = enumerate_candidates(combinations(make_config(*EIGHT)))
    assert (found.devices, found.in_turn) == (8, 8)
    assert [each.num_generations for each in found.splits] == [4, 32, 256]
    for row, each in enumerate(found.splits):
        assert each.best == min(table.splits, key=lambda devices: table.splits[devices][row, 0])
        ratio = table.splits[each.best][row, 0] / in_turn.seconds[row, 0]
        assert each.best_of_in_turn == pytest.approx(ratio)
        planned = table.seconds[row, 0] / in_turn.seconds[row, 0]
        assert each.planned_of_in_turn == pytest.approx(planned)
        assert ratio <= planned
    ratios = [each.planned_of_in_turn or np.nan for each in found.splits]
    assert found.of_in_turn is not None
    assert min(ratios) < found.of_in_turn < max(ratios)
    document = json.loads(json.dumps(plan_document(study)))
    assert document["overlaps"] == json.loads(json.dumps([asdict(found)]))
    assert document["cost_models"][0]["generation"]["overlap_devices"] == found.sampling
    assert plan_from_document(document) == study.plan


def test_the_plan_says_how_devices_are_split() -> None:
    said = isosweep.make_plan(" ".join(SPLIT)).notes
    (line,) = [line for line in said if line.startswith("overlap: ")]
    assert " of 8 devices sample and " in line
    (each,) = [line for line in said if line.startswith("quickest generation.overlap_devices")]
    assert " for n = 4 (" in each
    assert not [line for line in isosweep.make_plan(" ".join(EIGHT)).notes if "overlap" in line]


def test_a_split_that_is_uneven_names_one_that_is_not() -> None:
    thirty_two = "grid.problems_per_batch=[32]"
    config = make_config(*SPLIT, thirty_two, "generation.overlap_devices=3")
    with pytest.raises(SettingError, match="not a multiple of the 5 devices that train"):
        resolve(config)
    table = enumerate_candidates(combinations(config))[0]
    rule, *_ = rules_of(int(table.broken[0, 0, 0]))
    remedy = rule.remedy(table, Place(0, 0, 0))
    assert remedy == "generation.overlap_devices=4"
    assert resolve(make_config(*SPLIT, thirty_two, remedy)).plan.cells


def test_engines_are_not_divided_and_a_split_keeps_rollouts_even() -> None:
    (table,) = resolve(make_config(*SPLIT, "generation.tensor_parallel=2")).candidates
    assert set(table.splits) == {2, 4, 6}
    # Five devices that train cannot share n x B = 4 x 32 evenly.
    (table,) = resolve(
        make_config(*SPLIT, "grid.num_generations=[4]", "grid.problems_per_batch=[32]")
    ).candidates
    assert np.isinf(table.splits[3]).all()
    assert np.isfinite(table.splits[4]).all()


def test_splits_that_are_alike_are_told_once() -> None:
    said = isosweep.make_plan("+experiment=tiny/scalerl_off_policy generation.overlap=true").notes
    (line,) = [line for line in said if line.startswith("overlap, ")]
    assert line.startswith("overlap, variant=pipeline_8 (so in 2 combinations of grid.axes): 1")


def test_devices_that_sample_share_the_rollouts_evenly() -> None:
    three = (*SPLIT, "generation.overlap_devices=5", "grid.problems_per_batch=[24]")
    table = enumerate_candidates(combinations(make_config(*three)))[0]
    assert table.divisible.all()
    (rule,) = rules_of(int(table.broken[0, 0, 0]))
    candidate = table.at(Place(0, 0, 0))
    assert rule.reason(candidate).endswith("is not a multiple of the 5 devices that sample")
    remedy = rule.remedy(table, Place(0, 0, 0))
    assert remedy == "generation.overlap_devices=4"
    assert resolve(make_config(*three, remedy)).plan.cells


ON_A_CPU = (
    *("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10"),
    *("recipe.rollout_lag=1", "generation.overlap=true"),
)
IN_TURN = "generation.overlap=false generation.overlap_devices=null hardware.devices_per_run=1"


@pytest.mark.parametrize(
    ("run", "parallel", "sampling", "n", "problems", "remedy"),
    [
        (SPLIT, 2, 6, 2, 22, "generation.overlap_devices=4"),
        # 33 is shared by 1, 3 and 11 devices, and no two of them make 8.
        (SPLIT, 1, 5, 3, 11, IN_TURN),
        # No whole engine shares 15.
        (SPLIT, 2, 2, 3, 5, f"{IN_TURN} generation.tensor_parallel=1"),
        # 5 has no divisor in common with 12.
        (ON_A_CPU, 1, 5, 4, 3, "generation.overlap_devices=4"),
        ((*ON_A_CPU, "generation=vllm"), 2, 8, 4, 3, "generation.overlap_devices=6"),
    ],
)
def test_what_is_named_for_devices_that_sample_works(
    run: tuple[str, ...], parallel: int, sampling: int, n: int, problems: int, remedy: str
) -> None:
    overrides = (
        *(*run, f"generation.tensor_parallel={parallel}", f"generation.overlap_devices={sampling}"),
        *(f"grid.num_generations=[{n}]", f"grid.problems_per_batch=[{problems}]"),
    )
    table = enumerate_candidates(combinations(make_config(*overrides)))[0]
    broken = {rule.setting: rule for rule in rules_of(int(table.broken[0, 0, 0]))}
    rule = broken["generation.overlap_devices"]
    assert rule.remedy(table, Place(0, 0, 0)) == remedy
    mended = make_config(*overrides, *remedy.split())
    assert not enumerate_candidates(combinations(mended))[0].broken[0, 0, 0]


def test_on_a_cpu_processes_that_sample_are_beside_all_that_train() -> None:
    config = make_config(*ON_A_CPU, "generation.overlap_devices=2")
    assert (config.devices_taken, config.run_hardware.devices_per_run, config.splits) == (
        4,
        2,
        (2,),
    )
