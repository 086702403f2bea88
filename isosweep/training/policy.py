"""The model that is trained and its tokenizer, as a run reads them."""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from isosweep.errors import SettingError
from isosweep.models.prompts import stop_tokens
from isosweep.models.weights import load_difference
from isosweep.plan.spec import RunSpec
from isosweep.training.distributed import COLLECTIVE_S
from isosweep.training.sampling import Policy, Tokenizer


def load_policy(spec: RunSpec, directory: str) -> tuple[Policy, Tokenizer]:
    """Model and tokenizer from a directory or hub name, in the precision it is trained in.

    Under LoRA the model is frozen, and held in the precision it is computed in. The host holds as
    little as the libraries allow: weights go straight to a device that holds them whole, and of
    FSDP's ranks the first of each node alone reads them. No code that lies beside the weights is
    executed, and no sampling setting that lies there acts. Raises SettingError unless each tensor
    of the model is in its files.
    """
    place: dict[str, Any] = {"revision": spec.model.revision, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(directory, **place)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = spec.weights_dtype if spec.recipe.lora_rank is None else spec.dtype
    if spec.sharding == "fsdp":
        # What transformers asks before it reads weights (transformers/distributed/fsdp.py).
        os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}
        PartialState(timeout=timedelta(seconds=COLLECTIVE_S))
    placed = spec.device == "cuda" and spec.sharding == "ddp"
    model, report = AutoModelForCausalLM.from_pretrained(
        directory,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        dtype=getattr(torch, dtype),
        attn_implementation=spec.attention,
        device_map={"": f"cuda:{os.environ.get('LOCAL_RANK', '0')}"} if placed else None,
        **place,
    )
    # Else what is missing would be trained from random values.
    if (difference := load_difference(report)) is not None:
        rule = f"its weights do not agree with its config.json: {difference}"
        setting = "model.source" if spec.model.location is None else "model.path"
        raise SettingError(setting, directory, rule)
    keep_soft_cap(model)
    sample_as_asked(model, stop_tokens(spec.generation, spec.model, tokenizer))
    return model, tokenizer


def sample_as_asked(model: Any, stop: Sequence[int]) -> None:
    """Leave of the model's generation settings how its answers end, also by `stop`, and no more.

    `generate` fills in from them whatever its caller, TRL or the evaluation, leaves open.
    """
    shipped = model.generation_config
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    kept = {name: getattr(shipped, name) for name in names}
    if stop:
        own = kept["eos_token_id"]
        ends = own if isinstance(own, list) else [own]
        kept["eos_token_id"] = [end for end in [*ends, *stop] if end is not None]
    model.generation_config = GenerationConfig(**kept)


def keep_soft_cap(model: Any) -> None:
    """Has a model that caps its attention scores (Gemma 2) do so: torch's fused attention cannot.

    transformers' `sdpa` passes over the cap without a word; vLLM and flash attention keep it.
    """
    caps = getattr(model.config, "attn_logit_softcapping", None) is not None
    if caps and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")
