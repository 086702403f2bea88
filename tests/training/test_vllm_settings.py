"""vLLM's settings and what it needs, as far as they can be checked without vLLM."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from isosweep.config.axes import combinations
from isosweep.config.sweep import SweepConfig
from isosweep.config.task import Lengths
from isosweep.costs.fit import MemoryFit, fit_memory
from isosweep.costs.flops import head_flops_per_token, prefill_flops
from isosweep.plan.spec import RunSpec, run_spec
from isosweep.plan.study import resolve
from isosweep.preflight.vllm import missing_for_vllm, missing_server, server_needs
from isosweep.training.draws import Draws, request_seeds
from isosweep.training.ledger import Ledger
from isosweep.training.vllm import Noise
from tests.conftest import make_config

GPU = ("model=qwen-0.5b", "budget=1e18")
SERVER = ("generation.mode=server", "generation.server_url=http://gpu7:8000")


def spec_of(config: SweepConfig) -> RunSpec:
    return run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=4)


def test_temperatures_that_only_vllm_refuses_are_kept_for_transformers() -> None:
    assert make_config("recipe.temperature=2.5").recipe.temperature == 2.5


def test_a_server_leaves_training_all_of_its_device() -> None:
    import numpy as np

    config = make_config(*GPU, "recipe.max_micro_batch=512")

    def fit(**changed: Any) -> MemoryFit:
        return fit_memory(
            config.model.architecture,
            config.recipe,
            config.hardware,
            replace(config.generation, **changed),
            lengths=Lengths(prompt=72.0, completion=8192.0, longest=8192.0),
            completions=np.array([512]),
        )

    apart, together = fit(mode="server", server_url="http://gpu7:8000"), fit()
    assert apart.micro_batch[0] > together.micro_batch[0] > 0
    assert apart.engine is not None
    assert apart.engine.share[0] == 0
    assert apart.peak[0] <= 0.9 * config.hardware.memory_gb * 1e9
    assert apart.needed[0] < together.needed[0]


def test_seeds_are_distinct_and_do_not_depend_on_how_many_are_drawn() -> None:
    many = request_seeds((0, 1, 2, 3), 1000)
    assert len({*many, *request_seeds((0, 1, 3, 3), 1000)}) == 2000
    assert all(0 <= seed < 2**62 for seed in many)
    assert request_seeds((0, 1, 2, 3), 7) == many[:7]


def test_noise_follows_the_step_and_counts_calls_within_it() -> None:
    step = 5
    noise = Noise(1, lambda: step, engine=3)
    prompts = [[7], [7], [8]]
    assert noise.seeds(prompts) == request_seeds((0, 1, 5, 0, 3), 3)
    assert noise.seeds(prompts) == request_seeds((0, 1, 5, 1, 3), 3)
    with noise.of_evaluation(9, k=2):
        for _ in range(2):
            assert noise.seeds(prompts) == request_seeds((1, 9, 3), 3)
    assert noise.seeds(prompts) == request_seeds((0, 1, 5, 2, 3), 3)
    step = 6
    later = noise.seeds(prompts)
    # A process that starts at that step asks for the same.
    assert Noise(1, lambda: 6, engine=3).seeds(prompts) == later
    assert Noise(2, lambda: 6, engine=3).seeds(prompts) != later


def test_rollouts_that_wait_and_answers_beside_them_have_noise_of_any_number_of_engines() -> None:
    def engine(number: int, engines: int) -> Noise:
        draws, count = Draws(1, lambda: 5), 8 // engines
        draws.begin(range(number * count, (number + 1) * count))
        return Noise(1, lambda: 5, number, draws)

    def of_all(engines: int, prompts: list[list[int]], k: int | None = None) -> list[int]:
        found: list[int] = []
        count = len(prompts) // engines
        for number in range(engines):
            noise, own = engine(number, engines), prompts[number * count : (number + 1) * count]
            if k is None:
                found += noise.seeds(own)
                continue
            with noise.of_evaluation(9, k):
                found += noise.seeds(own)
        return found

    prompts = [[at] for at in range(4) for _ in range(2)]
    rollouts, answers = of_all(1, prompts), of_all(1, prompts, k=2)
    assert of_all(2, prompts) == of_all(4, prompts) == rollouts
    assert of_all(2, prompts, k=2) == of_all(4, prompts, k=2) == answers
    assert len({*rollouts, *answers}) == 16
    assert all(0 <= seed < 2**62 for seed in answers)
    # What fills up the share of another process of the engine moves nothing.
    assert of_all(1, prompts[2:4] + prompts, k=2)[2:] == answers


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        ((), "the package vllm"),
        (("hardware=cpu", "model.architecture.head_dim=16"), "for heads of 16"),
        (
            (*SERVER[:1], "generation.server_url=http://127.0.0.1:1", "launcher.max_parallel=1"),
            "a vLLM server at http://127.0.0.1:1",
        ),
    ],
)
def test_what_vllm_lacks_here_is_named(overrides: tuple[str, ...], what: str) -> None:
    config = make_config(*GPU, *overrides)
    missing = missing_for_vllm(config, combinations(config))
    assert any(what in part for part, _ in missing)


def test_transformers_lacks_nothing_of_vllm() -> None:
    assert missing_for_vllm(make_config(), combinations(make_config())) == []


@contextmanager
def answering(document: Any, status: int = 200) -> Iterator[str]:
    """A server that is healthy and answers `document` to everything else; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            healthy = self.path == "/health"
            self.send_response(200 if healthy else status)
            self.end_headers()
            self.wfile.write(b"" if healthy else json.dumps(document).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def described(engine: Any, mode: str) -> dict[str, Any]:
    model = {"logprobs_mode": mode}
    return {"vllm_config": {"weight_transfer_config": engine, "model_config": model}}


@pytest.mark.parametrize(
    ("document", "status", "expected"),
    [
        (described({"backend": "nccl"}, "processed_logprobs"), 200, []),
        (described(None, "processed_logprobs"), 200, ["a weight-transfer engine"]),
        (described({"backend": "nccl"}, "raw_logprobs"), 200, ["it has raw_logprobs"]),
        (described(None, "raw_logprobs"), 200, ["a weight-transfer", "it has raw_logprobs"]),
        ({}, 404, ["the development endpoints"]),
        ({}, 500, ["it answers 500"]),
        ({"something": "else"}, 200, ["a vLLM server at"]),
    ],
)
def test_a_server_that_cannot_take_weights_is_named(
    document: Any, status: int, expected: list[str]
) -> None:
    with answering(document, status) as url:
        lacking = missing_server(url)
    assert len(lacking) == len(expected)
    for (what, remedy), part in zip(lacking, expected, strict=True):
        assert part in what
        assert url in what
        assert "vllm serve" in remedy


def test_a_server_that_differs_from_the_plan_is_named() -> None:
    settings = ("generation.server_devices=4", "generation.tensor_parallel=2")
    config = make_config(*GPU, *SERVER, *settings, "launcher.max_parallel=1", "task=math")
    needs = server_needs(config)
    assert needs.command.startswith("VLLM_SERVER_DEV_MODE=1 vllm serve Qwen/Qwen2.5-0.5B")
    assert "--generation-config vllm" in needs.command
    assert "--tensor-parallel-size 2 --data-parallel-size 2" in needs.command
    document = described({"backend": "nccl"}, "processed_logprobs")
    document["vllm_config"]["model_config"] |= {
        "model": needs.model,
        "dtype": "torch.bfloat16",
        "max_model_len": needs.shortest,
    }
    document["vllm_config"] |= {
        "scheduler_config": {"max_num_seqs": needs.max_num_seqs},
        "parallel_config": {"tensor_parallel_size": 2, "data_parallel_size": 2},
    }
    with answering(document) as url:
        assert missing_server(url, [needs]) == []
    document["vllm_config"]["model_config"] |= {
        "model": "Qwen/Qwen2.5-7B",
        "dtype": "torch.float16",
        "generation_config": "auto",
        "max_model_len": needs.shortest - 1,
    }
    document["vllm_config"]["scheduler_config"]["max_num_seqs"] = 16
    document["vllm_config"]["parallel_config"]["data_parallel_size"] = 1
    with answering(document) as url:
        lacking = missing_server(url, [needs])
    parts = (
        *("it has Qwen/Qwen2.5-7B", "it has float16", "--generation-config vllm (it has auto)"),
        *("a context of", "it has 16", "it has 1)"),
    )
    for (what, remedy), part in zip(lacking, parts, strict=True):
        assert part in what
        assert needs.command in remedy


def test_plans_and_records_count_a_prompt_that_no_block_shares_n_times() -> None:
    """The built-in task's prompts have 8 tokens, a block on a CPU 128; on a GPU it has 16."""
    study = resolve(make_config("generation=vllm"))
    arch = study.config.model.architecture
    for run in list(study.specs.values())[:3]:
        count = run.completions_per_step
        ledger = Ledger(run)
        ledger.sampled([8] * count, [7] * count)
        assert ledger.spent.prefill_flops == pytest.approx(count * float(prefill_flops(arch, 8)))
        (table,) = study.candidates
        i = table.num_generations.tolist().index(run.num_generations)
        ledger.scored([8] * count, [7] * count)
        ledger.trained([8] * count, [7] * count)
        assert ledger.spent.flops == pytest.approx(float(table.flops[i, 0]))
    shared = replace(next(iter(study.specs.values())), device="cuda")
    ledger = Ledger(shared)
    ledger.sampled([40] * 16, [7] * 16)
    n, cached = shared.num_generations, float(prefill_flops(arch, 32)) - head_flops_per_token(arch)
    whole = 16 * float(prefill_flops(arch, 40))
    assert ledger.spent.prefill_flops == pytest.approx(whole - 16 * (1 - 1 / n) * cached)
