"""What the forward and backward passes of a micro-batch hold on a device, in bytes.

Three moments decide: the end of the forward pass, the head's backward pass, and that of a layer.
TRL 1.16 always scores through a fused head (`trl.trainer.utils.add_fused_lm_head`), whatever the
loss, entropy bonus or adapters are: logits exist a tile at a time and are never saved.
"""

from dataclasses import dataclass

from isosweep.config.hardware import HardwareConfig
from isosweep.config.model import Architecture
from isosweep.config.recipe import RecipeConfig
from isosweep.costs.memory import PRECISION_BYTES

# Tokens and vocabulary of one tile of logits (TRL 1.16: kernels/chunked_logprob.py,
# trainer/utils.py); the buffer has all the columns, however small the vocabulary.
_TILE_TOKENS, _TILE_COLUMNS = 4096, 32768
# Float32 tiles that torch holds at once where there is no Triton to fold one in place: the
# account of live storages in tests/costs/test_activations.py.
_TORCH_TILES = 8


@dataclass(frozen=True, kw_only=True)
class TrainingBytes:
    """What forward and backward passes add: once, and for every completion of a micro-batch."""

    fixed: float
    per_completion: float


@dataclass(frozen=True, kw_only=True)
class _Numbers:
    """How a run computes: bytes of a number `computed`, and in the stream between layers
    (`stream`); whether every linear map makes a copy of its input (`copies`, as autocast does where
    the stream is float32 or the map has adapters); whether weights are `trained`."""

    computed: int
    stream: int
    copies: bool
    trained: bool


def _numbers(recipe: RecipeConfig, hardware: HardwareConfig) -> _Numbers:
    computed, trained = PRECISION_BYTES[hardware.dtype], recipe.lora_rank is None
    # FSDP gathers weights in the precision that is computed in.
    held = hardware.weights_dtype if trained and hardware.sharding == "ddp" else hardware.dtype
    stream = PRECISION_BYTES[held]
    copies = stream != computed or (not trained and computed == 2)
    return _Numbers(computed=computed, stream=stream, copies=copies, trained=trained)


def saved_per_token(
    arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig, context: float
) -> float:
    """Bytes that one layer saves for its backward pass, per token of a row of `context` tokens.

    Two RMS norms (input in float32, normalised), the linear maps' inputs, queries, keys, values and
    output of the attention, and the four tensors of the gated MLP, as transformers' Qwen2, Qwen3
    and Llama layers save them. Under `sdpa` a padded batch has a mask of `context` numbers a token,
    and keys and values repeated to all heads.
    """
    numbers = _numbers(recipe, hardware)
    size, h, heads = numbers.computed, arch.hidden_size, arch.num_heads * arch.head_dim
    keys = arch.num_kv_heads * arch.head_dim
    # A frozen norm does not save what it scales.
    norms = 2 * h * (4 + (numbers.stream if numbers.trained else 0))
    # Inputs of q, k, v, gate and up: a copy for each, or one that they share.
    inputs = (5 if numbers.copies else 2) * h * size
    if numbers.copies and not numbers.trained:
        inputs += heads * size
    masked = hardware.attention == "sdpa"
    attention = 4.0 * arch.num_heads + (4 * heads if masked else 2 * (heads + keys)) * size
    if masked:
        attention += context * size
    if arch.qk_norm:
        attention += (heads + keys) * (4 + (size if numbers.trained else 0))
    width = arch.intermediate_size
    if arch.num_experts:
        # Each expert that a token is sent to saves its own input and its output besides.
        width = arch.num_experts_per_token * arch.expert_intermediate_size
        inputs += 2 * arch.num_experts_per_token * h * size
    return norms + inputs + attention + 4.0 * width * size


def kept_per_token(
    arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig, context: float
) -> float:
    """Bytes saved between forward and backward pass, per token of `context`, the head left out.

    With gradient checkpointing each layer keeps its input alone (transformers checkpoints whole
    layers, without re-entering autograd).
    """
    numbers = _numbers(recipe, hardware)
    if hardware.gradient_checkpointing:
        layer = float(arch.hidden_size * numbers.stream)
    else:
        layer = saved_per_token(arch, recipe, hardware, context)
    # The last norm.
    end = arch.hidden_size * (4 + (numbers.stream if numbers.trained else 0))
    return arch.num_layers * layer + end


def head_per_token(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """Bytes that the fused head saves per token it scores: its input."""
    stream = 4 if recipe.cast_lm_head_to_fp32 else _numbers(recipe, hardware).stream
    return float(arch.hidden_size * stream)


def autocast_bytes(arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> float:
    """The copies of the layers' weights that autocast keeps as long as it is entered."""
    numbers = _numbers(recipe, hardware)
    cast = numbers.trained and numbers.copies
    return float(arch.layer_weights * numbers.computed) if cast else 0.0


def training_bytes(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    *,
    prompt: float,
    completion: float,
) -> TrainingBytes:
    """What a micro-batch of completions padded to these lengths adds to the state, at its most.

    The most of what is held once, and the most of what every completion adds: an upper bound, as
    they need not come at the same moment.
    """
    numbers, tokens = _numbers(recipe, hardware), prompt + completion
    kept = tokens * kept_per_token(arch, recipe, hardware, tokens)
    kept += completion * head_per_token(arch, recipe, hardware)
    copies = autocast_bytes(arch, recipe, hardware)
    head = _head_buffers(arch, recipe, hardware, completion)
    gradient = float(arch.embedding_weights * 4) if numbers.trained else 0.0
    # A tied head's gradient waits for the embedding's own, at the end of the backward pass.
    tied = gradient if arch.tie_word_embeddings else 0.0
    layer_copies = copies / arch.num_layers if hardware.gradient_checkpointing else copies
    after = 0.0 if hardware.gradient_checkpointing else copies
    fixed = max(
        copies + head,
        after + head + gradient,
        layer_copies + tied + max(tied, _largest_map(arch) * (numbers.computed + 4.0)),
    )
    wide = tokens * _backward_per_token(arch, numbers)
    if hardware.gradient_checkpointing:
        wide += tokens * saved_per_token(arch, recipe, hardware, tokens)
    # The gradient of the head's input is summed in float32.
    return TrainingBytes(
        fixed=fixed + _gathered(arch, hardware),
        per_completion=kept + max(wide, completion * arch.hidden_size * 4.0),
    )


def _head_buffers(
    arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig, scored: float
) -> float:
    """A tile of logits, and the parts of weights and input that it is computed from."""
    numbers = _numbers(recipe, hardware)
    size = 4 if recipe.cast_lm_head_to_fp32 else numbers.computed
    rows = min(_TILE_TOKENS, scored * (recipe.micro_batch or recipe.max_micro_batch))
    columns = min(_TILE_COLUMNS, arch.vocab_size)
    tile = rows * _TILE_COLUMNS * size
    if hardware.device == "cpu":
        # A buffer that is never written takes no memory of a host.
        tile = rows * columns * (size + 4.0 * _TORCH_TILES)
    cast = (columns + rows) * arch.hidden_size * size if numbers.stream != size else 0
    return tile + cast


def _largest_map(arch: Architecture) -> int:
    """Weights of a layer's largest linear map."""
    return arch.hidden_size * max(arch.intermediate_size, arch.num_heads * arch.head_dim)


def _backward_per_token(arch: Architecture, numbers: _Numbers) -> float:
    """Gradients of activations alive at once: three as wide as the MLP, two of the stream."""
    width = arch.intermediate_size
    if arch.num_experts:
        width = arch.num_experts_per_token * arch.expert_intermediate_size
    return 3.0 * width * numbers.computed + 2.0 * arch.hidden_size * numbers.stream


def _gathered(arch: Architecture, hardware: HardwareConfig) -> float:
    """Whole weights that FSDP gathers: two layers, embedding and head."""
    if hardware.sharding == "ddp":
        return 0.0
    size = PRECISION_BYTES[hardware.dtype]
    ends = arch.embedding_weights * (1 if arch.tie_word_embeddings else 2)
    return size * (2.0 * arch.layer_weights / arch.num_layers + ends)


def generating_bytes(
    arch: Architecture,
    recipe: RecipeConfig,
    hardware: HardwareConfig,
    *,
    prompt: float,
    completion: float,
) -> float:
    """What transformers holds of one completion, at its most: cache and logits, or what
    a layer makes of the prompt while it is read.

    Keys are in the precision of the stream between layers, values in that which is computed in.
    """
    numbers = _numbers(recipe, hardware)
    keys = arch.num_layers * arch.num_kv_heads * arch.head_dim
    cached = keys * float(numbers.stream + numbers.computed)
    tokens, logits = prompt + completion, arch.vocab_size * 4.0
    # A layer's cache is copied as it grows, and where rows are padded repeated to all heads.
    layer = cached / arch.num_layers
    if hardware.attention == "sdpa":
        layer += 2 * arch.num_heads * arch.head_dim * numbers.computed
    # Of one position: the logits and their probabilities in float32, and these summed in float64.
    decoding = max(tokens * (cached + layer) + logits, tokens * cached + 4 * logits)
    width = arch.intermediate_size
    if arch.num_experts:
        width = arch.num_experts_per_token * arch.expert_intermediate_size
    reading = 3.0 * width * numbers.computed + 5.0 * arch.hidden_size * numbers.stream
    return max(decoding, prompt * (cached + reading))
