"""Less work than TRL's around the same numbers: equal to the last bit.

Sampling is TRL's own on a GPU, where what is cut here is small beside the model.
"""

from typing import Any

from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from trl.trainer import utils as trl_utils

# What a generation config may say, whatever it says, where the rest is transformers' default.
_SAMPLING = frozenset(
    {
        *("max_length", "max_new_tokens", "temperature", "top_p", "pad_token_id", "bos_token_id"),
        *("eos_token_id", "disable_compile", "transformers_version", "_from_model_config"),
    }
)


def pad(
    tensors: list[Any],
    padding_value: float = 0,
    padding_side: str = "right",
    pad_to_multiple_of: int | None = None,
) -> Any:
    """TRL's `pad` of flat tensors, in one call of torch: (sequences, tokens)."""
    if pad_to_multiple_of is not None or tensors[0].dim() != 1:
        return trl_utils.pad(tensors, padding_value, padding_side, pad_to_multiple_of)
    return pad_sequence(
        tensors, batch_first=True, padding_value=padding_value, padding_side=padding_side
    )


def is_plain(model: Any, config: Any) -> bool:
    """Whether `sampling.Sampler` gives what `model.generate` would by `config`, a GenerationConfig.

    Of a whole model on a CPU, without adapters or gradient checkpointing, that attends to all that
    went before, and whose tokens are drawn by a temperature and top_p alone.
    """
    if not isinstance(model, PreTrainedModel) or model.device.type != "cpu":
        return False
    shape = model.config.get_text_config()
    kinds = set(getattr(shape, "layer_types", None) or ["sliding_attention"])
    if kinds != {"full_attention"} or model.is_gradient_checkpointing:
        return False
    merged, _ = model._prepare_generation_config(config)
    said = {k: v for k, v in merged.to_diff_dict().items() if k not in _SAMPLING}
    defaults = merged._get_default_generation_params()
    asked = {name: value for name, value in said.items() if defaults.get(name, False) != value}
    return asked == {"do_sample": True, "top_k": 0}
