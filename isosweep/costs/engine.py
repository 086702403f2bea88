"""What one vLLM engine holds on a device, and how many rollouts it samples at once.

All sizes are bytes on one device of an engine that `tensor_parallel` devices share. They follow
vLLM 0.31 with its Model Runner V2, the default for every model here on CUDA and ROCm. Counted:
weights, the cache in whole blocks, what the sampler keeps for every request, CUDA graphs,
attention's scratch buffer, the largest forward pass, and the sampler's logits. Not counted:
input buffers (megabytes), NCCL's, and the device context, which `hardware.memory_reserve` leaves
room for. The cache is given to vLLM in bytes: its own profiling leaves the sampler's copies out
(v1/worker/gpu/model_runner.py, `_dummy_sampler_run`). Arrays of batches broadcast.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isosweep.config.hardware import Device, HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.recipe import GenerationConfig, RecipeConfig
from isosweep.costs.memory import PRECISION_BYTES, kv_bytes_per_token

Counts = NDArray[np.int64]
Bytes = NDArray[np.float64]
# How many at once: one number, or one for each batch.
Requests = float | Counts | Bytes

# Tokens of one block of the cache on a GPU (vLLM's config/cache.py, DEFAULT_BLOCK_SIZE).
BLOCK_TOKENS = 16
# Tokens of the cache's blocks, which rollouts of one prompt share; on a CPU its platform's own
# default (platforms/cpu.py, check_and_update_config).
SHARED_BLOCK_TOKENS: dict[Device, int] = {"cuda": BLOCK_TOKENS, "cpu": 128}
# vLLM's own default on its largest devices (engine/arg_utils.py, get_batch_defaults): most
# requests at once.
MAX_NUM_SEQS = 1024
# Half of vLLM's default for its LLM class there, and what its server has: tokens of one forward
# pass. Always above MAX_NUM_SEQS, as vLLM asks, so that prompts are read beside decoding.
MAX_NUM_BATCHED_TOKENS = 8192
# Assumed: no prompt is longer than this many times the mean, which tasks are planned with.
_LONGEST_PROMPT = 4
# Bytes of a layer in one captured graph: Llama-3.2-1B took 0.21 GiB for 35 graphs of 16 layers
# (vllm-project/vllm#11349).
_GRAPH_BYTES = 0.4e6
# Graphs that vLLM captures for MAX_NUM_SEQS, half of the pieces and half of decoding: batches of 1,
# 2 and 4, then in steps of 8 up to 256 and of 16 up to 512 (config/vllm.py, _set_cudagraph_sizes;
# up to 1024 on Blackwell).
_GRAPHS = 2 * (3 + 31 + 17)
# FlashInfer's, the largest of the attention backends (envs.py,
# VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE).
_ATTENTION_SCRATCH = 394 * 2**20
# Kept for each request and token of the vocabulary, asked for or not: a count of 4 bytes and a
# bit (v1/worker/gpu/sample/penalties.py, PenaltiesState).
_KEPT_BY_SAMPLER = 4 + 1 / 8
# The sampler's float32 copy of the logits, in which temperature, top-p and the noise are applied
# in place; `processed_logprobs` are read off it without a copy (v1/worker/gpu/sample/).
_SAMPLER_COPY = 4


@dataclass(frozen=True, kw_only=True)
class EngineBytes:
    """What an engine takes of one device.

    `weights`; `graphs`: captured graphs and attention's buffer, which stay while it sleeps;
    `kept`: for each request, asleep or not; `cache`: of one rollout, as expected, and at its
    `longest`; `context`: of one sequence of `max_model_len` tokens, the least cache that vLLM
    accepts; `spare`: of the cache, never used; `forward`: of the largest forward pass; `hidden`:
    what of it is left when the sampler runs; `logits`: of one request in the sampler.
    """

    weights: float
    graphs: float
    kept: float
    cache: float
    longest: float
    context: float
    spare: float
    forward: float
    hidden: float
    logits: float

    def working(self, requests: Requests) -> Bytes:
        """The most that a step of `requests` takes for a moment."""
        return np.maximum(self.forward, self.hidden + requests * self.logits)

    def cached(self, requests: Requests) -> Bytes:
        """The cache of `requests` rollouts."""
        return np.maximum(self.context, requests * self.cache) + self.spare

    def unexpected(self, requests: Requests) -> Bytes:
        """What the cache lacks for `requests` rollouts that are all at their longest at once."""
        return np.asarray(requests * self.longest - (self.cached(requests) - self.spare)).clip(0)

    def awake(self, requests: Requests) -> Bytes:
        """All that is held between steps, for `requests` at once."""
        return self.weights + self.cached(requests) + self.asleep(requests)

    def asleep(self, requests: Requests) -> Bytes:
        """What stays when weights and cache are given back: sleep frees what is tagged as these.

        v1/worker/gpu_worker.py, `_maybe_get_memory_pool_context`.
        """
        return np.asarray(self.graphs + requests * self.kept, dtype=np.float64)

    def requests_within(self, room: float, beside: Requests, most: Counts) -> Counts:
        """`max_num_seqs`: at most `most` requests that fit into `room` bytes; 0 where none does.

        `beside`: what else is held at times between the engine's steps.
        """
        requests = np.arange(1, MAX_NUM_SEQS + 1, dtype=np.float64)
        awake = self.awake(requests)
        sampling = np.searchsorted(awake + self.working(requests), room, side="right")
        waiting = np.searchsorted(awake, room - np.asarray(beside), side="right")
        return np.minimum(np.minimum(sampling, waiting), most)


def context_tokens(prompt: float, completion: float) -> int:
    """`max_model_len` that is planned for prompts of `prompt` tokens on average."""
    return math.ceil(_LONGEST_PROMPT * prompt) + math.ceil(completion)


def gathered_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """What is put together on every device, for a moment, to send sharded weights to an engine.

    That is one parameter after the other (TRL 1.16, generation/vllm_generation.py,
    `_iter_named_params`).
    """
    if hardware.sharding == "ddp":
        return 0.0
    dtype = hardware.weights_dtype if recipe.lora_rank is None else hardware.dtype
    # transformers keeps gate and up of all experts of a layer in one parameter.
    experts = 2 * arch.num_experts * arch.expert_intermediate_size * arch.hidden_size
    return float(max(arch.embedding_weights, experts) * PRECISION_BYTES[dtype])


def engine_bytes(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    generation: GenerationConfig,
    *,
    cached: float,
    longest: float,
    context: int,
) -> EngineBytes:
    """What an engine takes; `cached`: tokens that a rollout has in its cache where that is
    fullest, `longest` at most; `context`: tokens of its longest sequence."""
    size, devices = PRECISION_BYTES[hardware.dtype], generation.tensor_parallel
    logits = 4 if recipe.cast_lm_head_to_fp32 else size
    # A device computes its part of the vocabulary; the parts are gathered and put together.
    gathering = logits * (2 + 1 / devices) if devices > 1 else logits
    token = cache_bytes_per_token(arch, hardware.dtype, devices)
    block = SHARED_BLOCK_TOKENS[hardware.device]
    graphs = _GRAPHS * arch.num_layers * _GRAPH_BYTES + _ATTENTION_SCRATCH
    return EngineBytes(
        weights=_weights(arch, devices) * size,
        # On a CPU the engine is eager.
        graphs=graphs if hardware.device == "cuda" else 0.0,
        kept=arch.vocab_size * _KEPT_BY_SAMPLER,
        cache=blocks(cached, block) * token,
        longest=blocks(longest, block) * token,
        context=blocks(context, block) * token,
        # One block is vLLM's own (v1/core/block_pool.py, null_block): of a GPU's many a trifle.
        spare=block * token if hardware.device == "cpu" else 0.0,
        forward=MAX_NUM_BATCHED_TOKENS * size * _widest(arch, devices),
        hidden=float(MAX_NUM_BATCHED_TOKENS * arch.hidden_size * size),
        logits=arch.vocab_size * max(logits + _SAMPLER_COPY, gathering),
    )


def blocks(tokens: float, block: int = BLOCK_TOKENS) -> int:
    """Tokens of the blocks of `block` tokens that hold `tokens`."""
    return math.ceil(tokens / block) * block


def cache_bytes_per_token(arch: Architecture, dtype: str, tensor_parallel: int) -> float:
    """Keys and values of one token on one device, which has one head at least."""
    share = max(1, arch.num_kv_heads // tensor_parallel) / arch.num_kv_heads
    return kv_bytes_per_token(arch, dtype) * share


def _weights(arch: Architecture, devices: int) -> float:
    """Weights on one device: divided, but for norms, and for k and v where heads are too few."""
    repeated = max(1.0, devices / arch.num_kv_heads) - 1
    keys = 2 * arch.num_layers * arch.hidden_size * arch.num_kv_heads * arch.head_dim
    norms = (2 * arch.num_layers + 1) * arch.hidden_size * (1 - 1 / devices)
    return (arch.parameters + repeated * keys) / devices + norms


def _widest(arch: Architecture, devices: int) -> float:
    """Activations of one token at the widest point of a layer, the residual stream included."""
    attention = (2 * arch.num_heads + 2 * arch.num_kv_heads) * arch.head_dim / devices
    # Gate and up in one tensor, and their product.
    dense = routed = 0.0
    if arch.num_moe_layers < arch.num_layers:
        dense = 3 * arch.intermediate_size / devices
    if arch.num_moe_layers:
        # Each expert's input, gate and up, product, and output (fused_moe's intermediate caches).
        width = 3 * arch.expert_intermediate_size / devices + 2 * arch.hidden_size
        routed = arch.num_experts_per_token * width
    return 4 * arch.hidden_size + max(attention, dense, routed)
