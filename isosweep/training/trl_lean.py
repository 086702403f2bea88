"""TRL's GRPOTrainer with less work around the same numbers: equal to the last bit.

Sampling and scoring are TRL's own on a GPU, where what is cut here is small beside the model. What
all of it relies on is listed in tests/training/trl_reliance.py.
"""

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel
from trl import GRPOTrainer
from trl.trainer import grpo_trainer
from trl.trainer import utils as trl_utils

from isosweep.training.changed import changed
from isosweep.training.rollouts import Batch, Completions

# What a generation config may say, whatever it says, where the rest is transformers' default.
_SAMPLING = frozenset(
    {
        *("max_length", "max_new_tokens", "temperature", "pad_token_id", "bos_token_id"),
        *("eos_token_id", "disable_compile", "transformers_version", "_from_model_config"),
    }
)


class LeanGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer that samples, pads and scores with less overhead on a CPU."""

    _judged: tuple[dict[str, Any], bool] = ({}, False)

    def _generate_and_score_completions(self, inputs: list[Any]) -> Batch:
        with changed(grpo_trainer, pad=pad):
            batch: Batch = super()._generate_and_score_completions(inputs)
        return batch

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: dict[str, Any],
        num_generations: int,
        has_tool_images: bool = False,
    ) -> Completions:
        if not self._samples_plainly() or len(set(map(len, prompt_ids))) > 1:
            sampled: Completions = super()._generate_single_turn(
                prompt_ids, images, multimodal_fields, num_generations, has_tool_images
            )
            return sampled
        config = self.generation_config
        return sample_plainly(
            self.model,
            prompt_ids,
            limit=config.max_new_tokens,
            temperature=config.temperature,
            ends=config.eos_token_id,
            padding=config.pad_token_id,
        ), None

    def _samples_plainly(self) -> bool:
        """Whether `sample_plainly` does what TRL would: judged again where the config changes."""
        if self.use_vllm or self.use_transformers_continuous_batching:
            return False
        said = {k: v for k, v in vars(self.generation_config).items() if k != "max_new_tokens"}
        if self._judged[0] != said:
            alone = not (self.is_deepspeed_enabled or self.is_fsdp_enabled)
            self._judged = said, alone and is_plain(self.model, self.generation_config)
        return self._judged[1]

    def _get_per_token_logps_and_entropies(self, model: Any, *given: Any, **named: Any) -> Any:
        # TRL reserves the logits of 4,096 tokens x 32,768 words, and a smaller vocabulary would
        # touch a page of memory a token.
        words = trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE
        if self.accelerator.device.type == "cpu":
            words = min(words, self._words)
        with changed(trl_utils, _CHUNKED_LOGPROB_CHUNK_SIZE=words):
            return super()._get_per_token_logps_and_entropies(model, *given, **named)

    @property
    def _words(self) -> int:
        """The words that the model's head tells apart."""
        named = int(self.model.config.get_text_config().vocab_size)
        return max(named, len(self.model.get_output_embeddings().weight))


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


def sample_plainly(
    model: Any,
    prompts: list[list[int]],
    *,
    limit: int,
    temperature: float,
    ends: list[int],
    padding: int,
) -> list[list[int]]:
    """A completion of each of `prompts`, of one length, up to its end or `limit` tokens.

    Drawn as `generate` draws them: from the same logits, with the same random numbers.
    """
    cache = DynamicCache(config=model.config.get_text_config())
    stops = torch.tensor(ends)
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
