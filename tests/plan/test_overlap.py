"""What a plan counts of a generator beside its trainer."""

import pytest

from isosweep.config.base import replaced
from isosweep.errors import SettingError
from isosweep.launchers.sbatch import gpus_of_node
from isosweep.plan.study import Study, resolve
from tests.conftest import make_config

RUN = (
    *("model=qwen-0.5b", "hardware=h100", "budget=1e18", "generation=vllm"),
    *("recipe.rollout_lag=2", "grid.num_generations=[4,32,256]", "grid.problems_per_batch=[28]"),
    "grid.max_epochs=1000",
)
BESIDE = (*RUN, "hardware.devices_per_run=8", "generation.overlap=true")


@pytest.fixture(scope="module")
def study() -> Study:
    return resolve(make_config(*BESIDE))


def test_all_devices_are_counted_priced_and_asked_for(study: Study) -> None:
    (table,) = study.candidates
    longest = table.run_seconds[..., -1]
    for cell in study.plan.cells:
        i, j = table.pair(cell.num_generations, cell.problems_per_batch)
        assert cell.device_hours == pytest.approx(8 * longest[i, j] / 3600)
    assert gpus_of_node(make_config(*BESIDE, "launcher=slurm")) == 8


def test_a_run_is_that_of_the_devices_that_train(study: Study) -> None:
    in_turn = resolve(make_config(*RUN, "hardware.devices_per_run=7"))
    for spec in study.specs.values():
        assert (spec.devices, spec.devices_in_use) == (7, 8)
        # What is not planned alike for memory and time alone.
        alike = [replaced(each, micro_batch=spec.micro_batch) for each in in_turn.specs.values()]
        assert spec.run_id in {each.run_id for each in alike}


def test_an_uneven_share_names_the_devices_that_train() -> None:
    uneven = (*BESIDE, "grid.num_generations=[4]", "grid.problems_per_batch=[32]")
    with pytest.raises(SettingError, match="not a multiple of the 7 devices that train"):
        resolve(make_config(*uneven))


def test_a_cpu_samples_on_a_core_beside_all_that_train() -> None:
    two = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")
    config = make_config(*two, "recipe.rollout_lag=1", "generation.overlap=true")
    assert (config.devices_taken, config.run_hardware.devices_per_run) == (3, 2)
    assert replaced(config, generation=make_config().generation).devices_taken == 2
