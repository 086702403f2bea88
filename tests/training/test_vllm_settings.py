"""vLLM's settings and what it needs, as far as they can be checked without vLLM."""

import pytest

from isosweep.config.base import replaced
from isosweep.costs.flops import head_flops_per_token, prefill_flops
from isosweep.preflight.machine import missing_vllm
from isosweep.training.changed import changed
from isosweep.training.ledger import Ledger
from isosweep.training.seeds import RunSeeds, seeds_by_place
from tests.conftest import make_config
from tests.training.builders import spec_of

GPU = ("model=qwen-0.5b", "budget=1e18")


def test_seeds_follow_the_step_and_count_calls_within_it() -> None:
    step, prompts, spec = 5, [[7], [7], [8]], replaced(spec_of(), seed=1)
    seeds = RunSeeds(spec, 3, lambda: step)
    assert seeds.of_requests(prompts) == seeds_by_place((0, 1, 5, 0, 3), 3)
    assert seeds.of_requests(prompts) == seeds_by_place((0, 1, 5, 1, 3), 3)
    with changed(seeds, evaluation=(9, 2)):
        assert [seeds.of_requests(prompts) for _ in range(2)] == [seeds_by_place((1, 9, 3), 3)] * 2
    assert seeds.of_requests(prompts) == seeds_by_place((0, 1, 5, 2, 3), 3)
    step = 6
    later = seeds.of_requests(prompts)
    # A process that starts at that step asks for the same.
    assert RunSeeds(spec, 3, lambda: 6).of_requests(prompts) == later
    assert RunSeeds(replaced(spec, seed=2), 3, lambda: 6).of_requests(prompts) != later


def test_rollouts_that_wait_and_answers_beside_them_have_seeds_of_any_number_of_engines() -> None:
    def of_all(engines: int, prompts: list[list[int]], k: int | None = None) -> list[int]:
        found: list[int] = []
        count, spec = len(prompts) // engines, spec_of("recipe.rollout_lag=1")
        for number in range(engines):
            seeds = RunSeeds(spec, number, lambda: 5)
            seeds.begin(count)
            seeds.evaluation = None if k is None else (9, k)
            found += seeds.of_requests(prompts[number * count :][:count])
        return found

    prompts = [[at] for at in range(4) for _ in range(2)]
    rollouts, answers = of_all(1, prompts), of_all(1, prompts, k=2)
    assert of_all(2, prompts) == of_all(4, prompts) == rollouts
    assert of_all(2, prompts, k=2) == of_all(4, prompts, k=2) == answers
    assert len({*rollouts, *answers}) == 16
    assert all(0 <= seed < 2**62 for seed in answers)
    # The processes of one engine sample at the places of all of them.
    spec = spec_of("recipe.rollout_lag=1")
    pairs = replaced(spec, generation=replaced(spec.generation, name="vllm", tensor_parallel=2))
    every = [RunSeeds(pairs, process, lambda: 5) for process in range(4)]
    for each in every:
        each.begin(2)
    found = [each.of_rollouts() for each in every]
    assert found == [rollouts[:4], rollouts[:4], rollouts[4:], rollouts[4:]]
    # What fills up the share of another process of the engine moves nothing.
    assert of_all(1, prompts[2:4] + prompts, k=2)[2:] == answers


def test_what_vllm_lacks_here_is_named() -> None:
    assert any("the package vllm" in what for what, _ in missing_vllm(make_config(*GPU)))


def test_records_count_a_prompt_n_times_where_no_block_shares_it() -> None:
    """The built-in task's prompts have 8 tokens; a block has 128 on a CPU, and 16 on a GPU."""
    spec = spec_of("generation=vllm")
    n, arch = spec.num_generations, spec.model.architecture
    head = head_flops_per_token(arch)
    for run, length, shared in ((spec, 8, 0), (replaced(spec, device="cuda"), 40, 32)):
        ledger = Ledger(run)
        ledger.sampled([length] * 16, [7] * 16)
        whole = 16 * float(prefill_flops(arch, length))
        cached = float(prefill_flops(arch, shared)) - head if shared else 0.0
        assert ledger.spent.prefill_flops == pytest.approx(whole - 16 * (1 - 1 / n) * cached)
