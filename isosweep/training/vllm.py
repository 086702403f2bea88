"""Rollouts and held-out samples through vLLM, driven by TRL, the same at every repetition.

TRL builds the engine in the trainer's process. This module adds what TRL leaves out: the engine's
own arguments, and a seed for every request, so that what is sampled depends on the run's seed and
the step alone.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from isosweep.plan.spec import RunSpec
from isosweep.training.arguments import engine_arguments
from isosweep.training.changed import changed
from isosweep.training.distributed import free_port

if TYPE_CHECKING:
    from isosweep.training.trainer import SweepTrainer

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
    from trl.generation import vllm_generation

    plain, options = vllm_generation.LLM, engine_arguments(spec)
    with changed(vllm_generation, LLM=lambda **given: plain(**given | options)):
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


class VllmSampler:
    """Samples held-out completions by the engine that makes a trainer's rollouts.

    Every request of the engine is given its own seed: what is sampled depends neither on earlier
    requests nor on how requests are batched.
    """

    def __init__(self, spec: RunSpec, trainer: "SweepTrainer") -> None:
        self._trainer = trainer
        self._backend, self._llm = trainer.vllm_generation, trainer.vllm_generation.llm
        _require_float32_head(spec, self._llm)
        send = self._backend.sync_weights
        if spec.recipe.lora_rank is not None:
            send = keep_base(trainer.model, send)
        if spec.sharding == "fsdp":
            from isosweep.training.trl_fsdp import resharded

            send = resharded(trainer.model, send)
        self._backend.sync_weights = send
        generate = self._llm.generate

        def seeded(prompts: Sequence[Any], sampling_params: Any, **options: Any) -> Any:
            each = []
            tokens = [prompt["prompt_token_ids"] for prompt in prompts]
            for seed in trainer.seeds.of_requests(tokens):
                parameters = sampling_params.clone()
                parameters.seed = seed
                each.append(parameters)
            return generate(prompts, each, **options)

        self._llm.generate = seeded

    def sample(
        self, prompts: Sequence[Sequence[int]], *, k: int, temperature: float, limit: int, seed: int
    ) -> list[list[int]]:
        """Return `k` completions of at most `limit` tokens for each of `prompts`, in a row; all are
        token ids.

        The engine's weights are brought up to date first. Training is left as it was: its later
        completions are the same. Processes that share an engine are to ask for as many as each
        other.
        """
        trainer = self._trainer
        # TRL keeps the step of its last transfer.
        if trainer._last_loaded_step != trainer.steps_done:
            self._backend.sync_weights()
            trainer._last_loaded_step = trainer.steps_done
        rows = [list(prompt) for prompt in prompts for _ in range(k)]
        asked = {"temperature": temperature, "top_p": 1.0, "top_k": 0}
        with (
            changed(trainer.seeds, evaluation=(seed, k)),
            changed(self._backend, **asked, max_completion_length=limit),
        ):
            _, made, _, _ = self._backend.generate(rows, images=None, num_generations=k)
        # Training's prompts are read from scratch, as they would be without an evaluation.
        self._llm.reset_prefix_cache()
        completions: list[list[int]] = made
        return completions


def make_sampler(spec: RunSpec, trainer: "SweepTrainer") -> VllmSampler | None:
    """The sampler of a trainer that generates through vLLM; else None."""
    return VllmSampler(spec, trainer) if spec.generation.name == "vllm" else None


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
