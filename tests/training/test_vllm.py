"""vLLM on a CPU: real runs through the command line, and one engine looked at from inside.

Everything here is float32, where vLLM and transformers must agree to rounding.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from isosweep.plan.spec import RunSpec, run_spec
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records
from isosweep.tasks import heldout_problems
from isosweep.training.arguments import trl_arguments
from tests.conftest import SMALL, isosweep, make_config, set_of
from tests.runs import log_lines
from tests.training.builders import metrics, trainer_of
from tests.training.engines import VLLM, only_run, require_vllm

pytestmark = VLLM
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
        "+evaluation.sets.cool.temperature=0.5",
        *set_of("long", "sort", "sort.levels=[12]"),
        "+evaluation.sets.train.problems=train",
    )
    for name, given in (("sets", sets), ("alone", ("evaluation.temperature=0.5",))):
        (tmp_path / name).mkdir()
        isosweep("budget=3e10", *RUN, *given, cwd=tmp_path / name)
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


class Bench:
    """A trainer with its engine and sampler, two prompts, and two ways to score what is sampled."""

    def __init__(self, spec: RunSpec, checkpoints: Path) -> None:
        import torch

        from isosweep.models.prompts import prompt_tokens
        from isosweep.training.vllm import make_sampler

        self.trainer = trainer_of(spec, checkpoints)
        self.tokenizer = self.trainer.processing_class
        self.noise = torch.random.get_rng_state()
        sampler = make_sampler(spec, self.trainer)
        assert sampler is not None
        self.sampler = sampler
        self.engine = self.trainer.vllm_generation
        self.prompts = [
            prompt_tokens(self.tokenizer, problem, spec.model)
            for problem in heldout_problems(spec.task)[:2]
        ]

    def largest_difference(self, each: int = 8) -> float:
        """Between vLLM's and transformers' log-probabilities of tokens that vLLM samples: of `each`
        completions of a prompt."""
        import torch

        prompts = [prompt for prompt in self.prompts for _ in range(each)]
        _, completions, scored, _ = self.engine.generate(prompts, None, num_generations=each)
        worst = 0.0
        for prompt, completion, scores in zip(prompts, completions, scored, strict=True):
            with torch.no_grad():
                logits = self.trainer.model(torch.tensor([[*prompt, *completion]])).logits[0]
            own = torch.log_softmax(logits / self.engine.temperature, dim=-1)
            place = range(len(prompt) - 1, len(prompt) + len(completion) - 1)
            for at, token, (score,) in zip(place, completion, scores, strict=True):
                worst = max(worst, abs(float(own[at, token]) - score))
        return worst

    def samples(self, **changed: Any) -> Any:
        asked = {"k": 6, "temperature": 1.0, "limit": 9, "seed": 0, **changed}
        return self.sampler.sample(self.prompts, **asked)


def spec() -> RunSpec:
    config = make_config("generation=vllm", "task.num_eval_problems=8", "task.sort.levels=[4,6]")
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=3, micro_batch=16)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    # Other runs would go by what its libraries set.
    with mock.patch.dict(os.environ):
        yield Bench(spec(), tmp_path_factory.mktemp("bench"))


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
    asked = bench.samples(k=32)
    assert five in {ids[-1] for ids in asked}
    assert not any(five in ids[:-1] for ids in asked)


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
    assert len(first) == 12
    assert all(len({*map(tuple, own)}) > 1 for own in (first[:6], first[6:]))
    assert {len(ids) for ids in bench.samples(limit=2)} <= {1, 2}
