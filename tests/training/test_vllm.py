"""vLLM on a CPU: real runs through the command line, and one engine looked at from inside.

Everything here is float32, where vLLM and transformers must agree to rounding.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.training.arguments import trl_arguments
from tests.conftest import SMALL, isosweep, make_config
from tests.runs import log_lines
from tests.training.builders import metrics
from tests.training.engines import Bench, a_bench, only_run, require_vllm

pytestmark = [
    pytest.mark.vllm,
    # vLLM's own.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op` is deprecated"),
]
RUN = (
    *SMALL,
    "generation=vllm",
    "grid.num_generations=[8]",
    "grid.problems_per_batch=[8]",
    "task.num_eval_problems=64",
    "evaluation.samples_per_problem=4",
    "tracking=none",
)
# Rounding of float32 log-probabilities; a sync that is missed is off by more than a thousandth.
SAME = 1e-5


@pytest.fixture(autouse=True, scope="module")
def _vllm() -> None:
    require_vllm()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A run to 8e10 FLOPs that never stopped."""
    cwd = tmp_path_factory.mktemp("straight")
    isosweep("budget=[3e10,8e10]", *RUN, cwd=cwd)
    return only_run(cwd)


def test_a_run_learns_and_leaves_complete_records(straight: RunPaths) -> None:
    records = read_records(straight.records).records
    assert records[0].step == 0
    assert records[-1].compute.flops == pytest.approx(8e10, rel=0.02)
    assert records[-1].reward > records[0].reward + 0.03
    for record in records:
        assert len(record.successes) == 64
        assert all(0 <= count <= 4 for count in record.successes)
        assert 1 <= (record.completion_tokens or 0) <= 9
    assert [line["step"] for line in metrics(straight)] == list(range(1, records[-1].step + 1))


def test_the_sampler_and_the_learner_agree_at_every_step(straight: RunPaths) -> None:
    steps = metrics(straight)
    assert len(steps) == len(log_lines(straight.metrics))
    assert 0 < max(line["logp_difference"] for line in steps) < SAME
    # Of some 30,000 tokens a few are very unlikely, and their logarithms coarser.
    assert max(line["logp_difference_max"] for line in steps) < 10 * SAME


def test_evaluations_change_nothing_and_further_sets_are_sampled_as_main_ones(
    straight: RunPaths, tmp_path: Path
) -> None:
    sets = (
        "evaluation.sets={cool:{temperature:0.5},long:{task:{sort:{levels:[12]}}},"
        "train:{problems:train}}"
    )
    for name, given in (("sets", sets), ("alone", "evaluation.temperature=0.5")):
        (tmp_path / name).mkdir()
        isosweep("budget=3e10", *RUN, given, cwd=tmp_path / name)
    run, alone = only_run(tmp_path / "sets"), only_run(tmp_path / "alone")
    # However the policy is evaluated, training is the same.
    assert metrics(run) == metrics(alone) == metrics(straight)[: len(metrics(run))]
    records = [record.reproducible() for record in read_records(run.records).records]
    found = [record.pop("sets") for record in records]
    assert len(records) > 2
    expected = [record.reproducible() for record in read_records(straight.records).records]
    assert records == expected[: len(records)]
    main = [record.reproducible() for record in read_records(alone.records).records]
    cool = [each["cool"] for each in found]
    assert cool == [{name: record[name] for name in cool[0]} for record in main]
    # Longer than any rollout: the engine's context has room for them.
    assert max(each["long"]["completion_tokens"] for each in found) > 9


def test_two_processes_of_one_engine_sample_what_both_learn_from(tmp_path: Path) -> None:
    # An odd number of held-out problems: one process has one fewer to ask.
    devices = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e9")
    odd = ("task.num_eval_problems=33", "generation.tensor_parallel=2")
    few = ("budget=1e10", "grid.min_steps=5", "grid.tolerance=0.05")
    isosweep(*RUN, *few, *devices, *odd, cwd=tmp_path)
    run = only_run(tmp_path)
    assert 0 < max(line["logp_difference"] for line in metrics(run)) < SAME
    records = read_records(run.records).records
    assert all(len(record.successes) == 33 for record in records)
    assert records[-1].compute.flops == pytest.approx(1e10, rel=0.1)


def spec() -> RunSpec:
    config = make_config("generation=vllm", "task.num_eval_problems=8", "task.sort.levels=[4,6]")
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=3, micro_batch=16)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with a_bench(spec(), tmp_path_factory.mktemp("bench")) as bench:
        yield bench


@pytest.fixture
def moved(bench: Bench) -> Iterator[Bench]:
    """The bench with one matrix of the policy changed and not sent; put back afterwards."""
    import torch

    layer = bench.trainer.model.model.layers[0].mlp.down_proj
    before = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight.mul_(1.5)
    yield bench
    with torch.no_grad():
        layer.weight.copy_(before)
    bench.engine.sync_weights()


def test_an_engine_leaves_training_its_random_states(bench: Bench) -> None:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec().seed)
        assert bench.noise.equal(torch.random.get_rng_state())


def test_a_stop_ends_answers_in_training_and_evaluation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    five = bench.tokenizer.convert_tokens_to_ids("5")
    given = trl_arguments(spec(), 32, [five])["generation_kwargs"]
    monkeypatch.setattr(bench.engine, "generation_kwargs", given)
    _, sampled, *_ = bench.engine.generate(
        [prompt for prompt in bench.prompts for _ in range(16)], None, num_generations=16
    )
    assert five in {ids[-1] for ids in sampled}
    assert not any(five in ids[:-1] for ids in sampled)
    texts = [text.strip() for problem in bench.samples(k=32).texts for text in problem]
    assert "5" in {text[-1:] for text in texts}
    assert not any("5" in text[:-1] for text in texts)


def test_weights_that_were_not_sent_show_and_sending_them_mends_it(moved: Bench) -> None:
    assert moved.largest_difference() > 100 * SAME
    moved.engine.sync_weights()
    assert moved.largest_difference() < SAME


def test_steps_of_training_are_sent_before_the_next_rollouts(bench: Bench) -> None:
    before = {name: value.clone() for name, value in bench.trainer.model.state_dict().items()}
    bench.trainer.args.max_steps = 2
    bench.trainer.train()
    after = bench.trainer.model.state_dict()
    assert any(not before[name].equal(value) for name, value in after.items())
    # The second step's update has not been sent: nothing was sampled since.
    assert bench.largest_difference() > 10 * SAME
    bench.samples()
    assert bench.largest_difference() < SAME


def test_samples_depend_on_the_seed_and_on_nothing_before_them(bench: Bench) -> None:
    # At this temperature a model that spells digits does not say the same six times.
    first = bench.samples(temperature=2.0)
    assert bench.samples(seed=1, temperature=2.0) != first
    bench.samples()
    assert bench.samples(seed=0, temperature=2.0) == first
    assert [len(texts) for texts in first.texts] == [6, 6]
    assert all(len(set(texts)) > 1 for texts in first.texts)
    shortest = bench.samples(limit=2)
    assert {length for lengths in shortest.tokens for length in lengths} <= {1, 2}


def test_sampling_held_out_problems_leaves_the_engine_and_rollouts_as_they_were(
    bench: Bench,
) -> None:
    settings = {name: getattr(bench.engine, name) for name in ("temperature", "top_p", "top_k")}
    limit = bench.engine.max_completion_length

    def rollouts(step: int) -> Any:
        bench.trainer.state.global_step = step
        prompts = [prompt for prompt in bench.prompts for _ in range(4)]
        return bench.engine.generate(prompts, None, num_generations=4)[1]

    expected = [rollouts(11), rollouts(12)]
    assert expected[0] != expected[1]
    again = [rollouts(11)]
    bench.samples(temperature=2.0, limit=5)
    again.append(rollouts(12))
    assert again == expected
    assert {name: getattr(bench.engine, name) for name in settings} == settings
    assert bench.engine.max_completion_length == limit
