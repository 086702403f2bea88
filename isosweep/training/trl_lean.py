"""Less work than TRL's around the same numbers: equal to the last bit.

Sampling is TRL's own on a GPU, where what is cut here is small beside the model.
"""

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel
from trl.trainer import utils as trl_utils

# What a generation config may say, whatever it says, where the rest is transformers' default.
_SAMPLING = frozenset(
    {
        *("max_length", "max_new_tokens", "temperature", "pad_token_id", "bos_token_id"),
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
    """Whether `sample_plainly` gives what `model.generate` would by `config`, a GenerationConfig.

    Of a whole model on a CPU, without adapters or gradient checkpointing, that attends to all that
    went before, and whose logits are only divided by a temperature.
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


def sample_plainly(model: Any, prompts: list[list[int]], config: Any) -> list[list[int]]:
    """A completion of each of `prompts`, of one length, up to its end or the config's limit.

    Drawn as `generate` draws them: from the same logits, with the same random numbers.
    """
    limit, temperature = config.max_new_tokens, config.temperature
    cache = DynamicCache(config=model.config.get_text_config())
    stops, padding = torch.tensor(config.eos_token_id), config.pad_token_id
    going = torch.ones(len(prompts), dtype=torch.long)
    read, drawn = torch.tensor(prompts), list[Any]()
    with torch.no_grad():
        while len(drawn) < limit and going.max():
            out = model(input_ids=read, past_key_values=cache, use_cache=True, logits_to_keep=1)
            logits = out.logits[:, -1].to(copy=True, dtype=torch.float32)
            if temperature != 1.0:
                logits = logits / temperature
            token = torch.multinomial(torch.softmax(logits, dim=-1), num_samples=1).squeeze(1)
            token = token * going + padding * (1 - going)
            going = going & ~torch.isin(token, stops)
            drawn.append(token)
            read = token[:, None]
    tokens = torch.stack(drawn, dim=1)
    ended = torch.isin(tokens, stops)
    lengths = torch.where(ended.any(1), ended.int().argmax(1) + 1, len(drawn)).tolist()
    return [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)]
