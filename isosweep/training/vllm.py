"""Rollouts and held-out samples through vLLM, driven by TRL, the same at every repetition.

TRL builds the engine in the trainer's process (`generation.mode=colocate`) or speaks to a server
(`server`). This module adds what TRL leaves out: the engine's own arguments, and a seed for every
request, so that what is sampled depends on the run's seed and the step alone.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from isosweep.plan.spec import RunSpec
from isosweep.training.arguments import engine_arguments
from isosweep.training.protocols import Sampled, Tokenizer

if TYPE_CHECKING:
    from isosweep.training.beside import Beside
    from isosweep.training.trl_adapter import TRLTrainer
    from isosweep.training.trl_engine import Engine

# GB (2^30 bytes) of keys and values on a CPU where none are planned; vLLM's own default there is
# most of the memory.
_CPU_CACHE_GB = "1"
# What training and evaluation draw their noise from: never the same seeds.
_TRAINING, _EVALUATION = 0, 1


def prepare_vllm(spec: RunSpec) -> None:
    """Set what vLLM reads when it is imported; to be called before the trainer is built."""
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    # TRL reaches into the engine, which has to live in this process.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if spec.devices == 1:
        # TRL then takes a free port: a fixed one would be shared by the runs of one machine.
        os.environ.pop("MASTER_PORT", None)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if spec.device == "cpu":
        if not spec.vllm_cache_bytes:
            os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", _CPU_CACHE_GB)
        if not spec.compile:
            # vLLM compiles a part of its sampler even where it is eager, for 8 s at the first call.
            os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        import vllm._custom_ops as operations

        # oneDNN packs the weights at load time, and then no new ones can be loaded.
        operations._supports_onednn = False


@contextmanager
def vllm_engine(spec: RunSpec) -> Iterator[None]:
    """While a trainer is built: its engine is given `engine_arguments` as well as TRL's.

    The random states are then those of a trainer without an engine, which sets its own.
    """
    if spec.generation.name != "vllm":
        yield
        return
    prepare_vllm(spec)
    from accelerate.utils import set_seed

    from isosweep.training.trl_engine import engine_options

    with engine_options(engine_arguments(spec)):
        yield
    set_seed(spec.seed, device_specific=True)


def compute_as_with_engine(spec: RunSpec) -> None:
    """Set of torch what is set where vLLM's engine is (v1/worker/gpu_worker.py, vLLM 0.31).

    A trainer whose engine is in another process then computes the same numbers.
    """
    prepare_vllm(spec)
    import torch
    from vllm import envs

    torch.set_float32_matmul_precision(envs.VLLM_FLOAT32_MATMUL_PRECISION)


def request_seeds(entropy: Sequence[int], count: int) -> list[int]:
    """Seeds of `count` requests, below 2^62: vLLM adds small numbers to them.

    The seeds of two entropies, and those of one, are independent of each other.
    """
    words = np.random.SeedSequence(entropy).generate_state(count, np.uint64) >> np.uint64(2)
    return [int(word) for word in words]


class Noise:
    """Says which noise an engine samples with: training's of this step, or evaluation's."""

    def __init__(self, seed: int, step: Callable[[], int]) -> None:
        self._seed, self._step = seed, step
        self._last = (-1, -1)
        self._evaluation: int | None = None

    def entropy(self) -> tuple[int, ...]:
        """What the next request's seeds are drawn from.

        Training asks more than once in a step where a recipe samples again: calls are counted.
        """
        if self._evaluation is not None:
            return _EVALUATION, self._evaluation
        step, call = self._step(), 0
        if self._last[0] == step:
            call = self._last[1] + 1
        self._last = (step, call)
        return _TRAINING, self._seed, step, call

    @contextmanager
    def of_evaluation(self, seed: int) -> Iterator[None]:
        """Inside, requests are seeded as samples of an evaluation with `seed`."""
        self._evaluation = seed
        try:
            yield
        finally:
            self._evaluation = None


def seed_requests(llm: Any, noise: Noise, engine: int = 0) -> None:
    """Give every request of `llm` (a `vllm.LLM`) its own seed, drawn from `noise` and its number.

    What is sampled then depends neither on earlier requests nor on how requests are batched.
    """
    generate = llm.generate

    def seeded(prompts: Sequence[Any], sampling_params: Any, **options: Any) -> Any:
        each = []
        for seed in request_seeds((*noise.entropy(), engine), len(prompts)):
            parameters = sampling_params.clone()
            parameters.seed = seed
            each.append(parameters)
        return generate(prompts, each, **options)

    llm.generate = seeded


class VllmSampler:
    """Samples held-out completions through the engine that makes a trainer's rollouts."""

    def __init__(self, engine: "Engine", noise: Noise, tokenizer: Tokenizer) -> None:
        self._engine, self._noise, self._tokenizer = engine, noise, tokenizer

    def sample(
        self, prompts: Sequence[Sequence[int]], *, k: int, temperature: float, limit: int, seed: int
    ) -> Sampled:
        """`k` completions of at most `limit` tokens for each of `prompts` (token ids).

        The engine's weights are brought up to date first. Training is left as it was: its later
        completions are the same. A server draws its own noise, whatever `seed`.
        """
        self._engine.synchronise()
        rows = [list(prompt) for prompt in prompts for _ in range(k)]
        with self._noise.of_evaluation(seed):
            completions = self._engine.sample(rows, k=k, temperature=temperature, limit=limit)
        if self._engine.llm is not None:
            # Training's prompts are read from scratch, as they would be without an evaluation.
            self._engine.llm.reset_prefix_cache()
        texts = self._tokenizer.batch_decode(completions, skip_special_tokens=True)
        starts = range(0, len(rows), k)
        return Sampled(
            [texts[i : i + k] for i in starts],
            [[len(ids) for ids in completions[i : i + k]] for i in starts],
        )


class BesideSampler:
    """Samples held-out completions through the engine of the process beside a trainer."""

    def __init__(self, beside: "Beside", step: Callable[[], int]) -> None:
        self._beside, self._step = beside, step

    def sample(self, prompts: Sequence[Sequence[int]], **asked: Any) -> Sampled:
        """What `VllmSampler` there gives."""
        rows = [list(prompt) for prompt in prompts]
        return Sampled(**self._beside.evaluate(self._step(), {"prompts": rows, **asked}))


def keep_base(model: Any, synchronise: Callable[[], None]) -> Callable[[], None]:
    """`synchronise`, after which the frozen weights beneath LoRA's adapters are what they were.

    Sending weights merges the adapters into them and takes them out again, which rounds: a run
    would drift away from its base, and from what a resumed one starts with. The copy, of each
    process's own part, is taken before the first transfer, and lies in the memory of the host.
    """
    kept: list[Any] = []

    def exactly() -> None:
        layers = [layer.base_layer for layer in model.modules() if hasattr(layer, "base_layer")]
        own = [_local(layer.weight) for layer in layers]
        if not kept:
            kept.extend(weight.to("cpu", copy=True) for weight in own)
        synchronise()
        for weight, before in zip(own, kept, strict=True):
            weight.data.copy_(before)

    return exactly


def _local(weight: Any) -> Any:
    """This process's part of a weight, as FSDP or DeepSpeed keep it; else all of it."""
    if hasattr(weight, "to_local"):
        return weight.to_local()
    return getattr(weight, "ds_tensor", weight)


def _require_float32_head(spec: RunSpec, llm: Any) -> None:
    """Raises RuntimeError where this release of vLLM passes over the head's precision."""
    precision = llm.llm_engine.model_config.head_dtype
    if spec.recipe.cast_lm_head_to_fp32 and str(precision) != "torch.float32":
        raise RuntimeError(
            f"recipe.cast_lm_head_to_fp32=true: this vLLM computes the head in {precision}, and "
            "the trainer in float32. Use a newer vLLM, or recipe.cast_lm_head_to_fp32=false"
        )


def make_sampler(spec: RunSpec, trainer: "TRLTrainer", tokenizer: Tokenizer) -> VllmSampler | None:
    """The sampler of a trainer that generates through vLLM, whose noise it fixes; else None."""
    if spec.generation.name != "vllm":
        return None
    from isosweep.training.trl_engine import Engine
    from isosweep.training.trl_fsdp import resharded

    engine = Engine(trainer)
    if spec.recipe.lora_rank is not None:
        engine.around_synchronising(lambda send: keep_base(trainer.model, send))
    if spec.sharding == "fsdp":
        engine.around_synchronising(lambda send: resharded(trainer.model, send))
    noise = Noise(spec.seed, lambda: trainer.steps_done)
    if engine.llm is not None:
        _require_float32_head(spec, engine.llm)
        # The processes of one engine sample the same requests together.
        seed_requests(engine.llm, noise, trainer.process // spec.generation.tensor_parallel)
    return VllmSampler(engine, noise, tokenizer)
