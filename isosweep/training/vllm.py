"""Rollouts and held-out samples through vLLM, driven by TRL, the same at every repetition.

TRL builds the engine in the trainer's process. This module adds what TRL leaves out: the engine's
own arguments, and a seed for every request, so that what is sampled depends on the run's seed and
the step alone.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from isosweep.plan.spec import RunSpec
from isosweep.training.arguments import engine_arguments
from isosweep.training.changed import changed
from isosweep.training.draws import EVALUATION, TRAINING, Calls, Draws, request_seeds
from isosweep.training.ranks import free_port
from isosweep.training.sampling import Sampled, Tokenizer, streams

if TYPE_CHECKING:
    from isosweep.training.trainer import SweepTrainer
    from isosweep.training.trl_engine import Engine

# GB (2^30 bytes) of keys and values on a CPU where none are planned; vLLM's own default there is
# most of the memory.
_CPU_CACHE_GB = "1"


def prepare_vllm(spec: RunSpec) -> None:
    """Set what vLLM reads when it is imported; to be called before the trainer is built."""
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    # TRL reaches into the engine, which has to live in this process.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if spec.devices == 1:
        # TRL would take the first free one of four: runs that start together take the same.
        os.environ["MASTER_PORT"] = str(free_port(""))
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if spec.device == "cpu":
        if not spec.vllm_cache_bytes:
            os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", _CPU_CACHE_GB)
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


class Noise:
    """Says which noise an engine samples with: training's of this step, or evaluation's.

    With `draws` it follows from the place of a rollout, and from a held-out answer's problem;
    without, from the number of the engine and that of the request.
    """

    def __init__(
        self, seed: int, step: Callable[[], int], engine: int = 0, draws: Draws | None = None
    ) -> None:
        self._seed, self._calls = seed, Calls(step)
        self._engine, self._draws = engine, draws
        self._evaluation: tuple[int, int] | None = None

    def seeds(self, prompts: Sequence[Sequence[int]]) -> list[int]:
        """A seed of each request, below 2^62, by the token ids of its prompt."""
        if self._evaluation is None:
            if self._draws is not None:
                return self._draws.seeds()
            return self._numbered(prompts, TRAINING, self._seed, *self._calls.next())
        seed, k = self._evaluation
        if self._draws is None:
            return self._numbered(prompts, EVALUATION, seed)
        answers = [(str(list(prompt)), at % k) for at, prompt in enumerate(prompts)]
        return [int(stream) >> 2 for stream in streams(seed, answers)]

    def _numbered(self, prompts: Sequence[Sequence[int]], *entropy: int) -> list[int]:
        return request_seeds((*entropy, self._engine), len(prompts))

    def of_evaluation(self, seed: int, k: int) -> AbstractContextManager[None]:
        """Inside, requests are seeded as `k` samples of each problem of an evaluation with `seed`.

        Those of a problem follow one another.
        """
        return changed(self, _evaluation=(seed, k))


def seed_requests(llm: Any, noise: Noise) -> None:
    """Give every request of `llm` (a `vllm.LLM`) its own seed, which is `noise`'s to say.

    What is sampled then depends neither on earlier requests nor on how requests are batched.
    """
    generate = llm.generate

    def seeded(prompts: Sequence[Any], sampling_params: Any, **options: Any) -> Any:
        each = []
        for seed in noise.seeds([prompt["prompt_token_ids"] for prompt in prompts]):
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
        completions are the same.
        """
        self._engine.synchronise()
        rows = [list(prompt) for prompt in prompts for _ in range(k)]
        with self._noise.of_evaluation(seed, k):
            completions = self._engine.sample(rows, k=k, temperature=temperature, limit=limit)
        # Training's prompts are read from scratch, as they would be without an evaluation.
        self._engine.llm.reset_prefix_cache()
        texts = self._tokenizer.batch_decode(completions, skip_special_tokens=True)
        starts = range(0, len(rows), k)
        return Sampled(
            [texts[i : i + k] for i in starts],
            [[len(ids) for ids in completions[i : i + k]] for i in starts],
        )


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
    """This process's part of a weight, as FSDP keeps it; else all of it."""
    return weight.to_local() if hasattr(weight, "to_local") else weight


def _require_float32_head(spec: RunSpec, llm: Any) -> None:
    """Raises RuntimeError where this release of vLLM passes over the head's precision."""
    precision = llm.llm_engine.model_config.head_dtype
    if spec.recipe.cast_lm_head_to_fp32 and str(precision) != "torch.float32":
        raise RuntimeError(
            f"recipe.cast_lm_head_to_fp32=true: this vLLM computes the head in {precision}, and "
            "the trainer in float32. Use a newer vLLM, or recipe.cast_lm_head_to_fp32=false"
        )


def make_sampler(
    spec: RunSpec, trainer: "SweepTrainer", tokenizer: Tokenizer
) -> VllmSampler | None:
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
    # The processes of one engine sample the same requests together.
    number = trainer.process // spec.generation.tensor_parallel
    noise = Noise(spec.seed, lambda: trainer.steps_done, number, trainer.draws)
    _require_float32_head(spec, engine.llm)
    seed_requests(engine.llm, noise)
    return VllmSampler(engine, noise, tokenizer)
