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


class _Model:
    """How a run computes a model.

    Bytes of a number `computed`, and in the `stream` between layers; whether every linear map
    `copies` its input, as autocast does where the stream is float32 or the map has adapters;
    whether weights are `trained`; `width`: of the MLP that a token goes through.
    """

    def __init__(self, arch: Architecture, recipe: RecipeConfig, hardware: HardwareConfig) -> None:
        self.arch, self.recipe, self.hardware = arch, recipe, hardware
        self.trained = recipe.lora_rank is None
        self.computed = PRECISION_BYTES[hardware.dtype]
        # FSDP gathers weights in the precision that is computed in.
        whole = self.trained and hardware.sharding == "ddp"
        self.stream = PRECISION_BYTES[hardware.weights_dtype if whole else hardware.dtype]
        self.copies = self.stream != self.computed or (not self.trained and self.computed == 2)
        self.masked = hardware.attention == "sdpa"
        self.width = arch.intermediate_size
        if arch.num_experts:
            self.width = arch.num_experts_per_token * arch.expert_intermediate_size

    def saved_per_token(self, context: float) -> float:
        """What one layer saves for its backward pass, per token of a row of `context` tokens.

        Two RMS norms (input in float32, normalised), the linear maps' inputs, queries, keys, values
        and output of the attention, and the four tensors of the gated MLP, as transformers' Qwen2,
        Qwen3 and Llama layers save them. Under `sdpa` a padded batch has a mask of `context`
        numbers a token, and keys and values repeated to all heads.
        """
        arch, size, h = self.arch, self.computed, self.arch.hidden_size
        heads, keys = arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
        # A frozen norm does not save what it scales.
        norms = 2 * h * (4 + self.trained * self.stream)
        # Inputs of q, k, v, gate and up: a copy for each, or one that they share.
        inputs = (5 if self.copies else 2) * h * size
        if self.copies and not self.trained:
            inputs += heads * size
        attention = 4.0 * arch.num_heads + 2 * (heads + keys) * size
        if self.masked:
            attention = 4.0 * arch.num_heads + (4 * heads + context) * size
        if arch.qk_norm:
            attention += (heads + keys) * (4 + self.trained * size)
        # Each expert that a token is sent to saves its own input and its output besides.
        experts = 2 * arch.num_experts_per_token * h * size if arch.num_experts else 0
        return norms + inputs + experts + attention + 4.0 * self.width * size

    def kept(self, prompt: float, completion: float) -> float:
        """What a row keeps between forward and backward pass.

        With gradient checkpointing each layer keeps its input alone (transformers checkpoints whole
        layers, without re-entering autograd). The last norm, and the fused head's input of the
        tokens that it scores, come on top.
        """
        tokens, h = prompt + completion, self.arch.hidden_size
        layer = float(h * self.stream)
        if not self.hardware.gradient_checkpointing:
            layer = self.saved_per_token(tokens)
        norm = h * (4 + self.trained * self.stream)
        head = h * (4 if self.recipe.cast_lm_head_to_fp32 else self.stream)
        return tokens * (self.arch.num_layers * layer + norm) + completion * head

    def head_buffers(self, scored: float) -> float:
        """A tile of logits, and the parts of weights and input that it is computed from."""
        size = 4 if self.recipe.cast_lm_head_to_fp32 else self.computed
        rows = min(_TILE_TOKENS, scored * (self.recipe.micro_batch or self.recipe.max_micro_batch))
        columns = min(_TILE_COLUMNS, self.arch.vocab_size)
        tile = rows * _TILE_COLUMNS * size
        if self.hardware.device == "cpu":
            # A buffer that is never written takes no memory of a host.
            tile = rows * columns * (size + 4.0 * _TORCH_TILES)
        cast = (columns + rows) * self.arch.hidden_size * size if self.stream != size else 0
        return tile + cast

    def gathered(self) -> float:
        """Whole weights that FSDP gathers: two layers, embedding and head."""
        if self.hardware.sharding == "ddp":
            return 0.0
        ends = self.arch.embedding_weights * (1 if self.arch.tie_word_embeddings else 2)
        return self.computed * (2.0 * self.arch.layer_weights / self.arch.num_layers + ends)


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
    model, tokens = _Model(arch, recipe, hardware), prompt + completion
    # Autocast keeps copies of the layers' weights as long as it is entered.
    cast = model.trained and model.copies
    copies = float(arch.layer_weights * model.computed) if cast else 0.0
    head, gradient = model.head_buffers(completion), arch.embedding_weights * 4.0 * model.trained
    # A tied head's gradient waits for the embedding's own, at the end of the backward pass.
    tied = gradient if arch.tie_word_embeddings else 0.0
    largest_map = arch.hidden_size * max(arch.intermediate_size, arch.num_heads * arch.head_dim)
    again = hardware.gradient_checkpointing
    fixed = max(
        copies + head,
        (0.0 if again else copies) + head + gradient,
        (copies / arch.num_layers if again else copies)
        + tied
        + max(tied, largest_map * (model.computed + 4.0)),
    )
    # Gradients of activations alive at once: three as wide as the MLP, two of the stream.
    wide = 3.0 * model.width * model.computed + 2.0 * arch.hidden_size * model.stream
    if again:
        wide += model.saved_per_token(tokens)
    # The gradient of the head's input is summed in float32.
    return TrainingBytes(
        fixed=fixed + model.gathered(),
        per_completion=model.kept(prompt, completion)
        + max(tokens * wide, completion * arch.hidden_size * 4.0),
    )


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
    model = _Model(arch, recipe, hardware)
    keys = arch.num_layers * arch.num_kv_heads * arch.head_dim
    cached = keys * float(model.stream + model.computed)
    tokens, logits = prompt + completion, arch.vocab_size * 4.0
    # A layer's cache is copied as it grows, and where rows are padded repeated to all heads.
    layer = cached / arch.num_layers
    if model.masked:
        layer += 2 * arch.num_heads * arch.head_dim * model.computed
    # Of one position: the logits and their probabilities in float32, and these summed in float64.
    decoding = max(tokens * (cached + layer) + logits, tokens * cached + 4 * logits)
    reading = 3.0 * model.width * model.computed + 5.0 * arch.hidden_size * model.stream
    return max(decoding, prompt * (cached + reading))
