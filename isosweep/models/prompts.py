"""Prompts as the model reads them, the texts that end its answers, and chat templates and texts
that no run can be trained with."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from isosweep.config.model import BUILTIN_MODEL, ModelConfig
from isosweep.config.recipe import GenerationConfig
from isosweep.errors import SettingError
from isosweep.models.weights import weights
from isosweep.tasks.problem import Problem

# What a template's `strftime_now` may say: two times that differ in all that it can show.
_CLOCKS = (datetime(2001, 2, 3, 4, 5, 6), datetime(2012, 11, 10, 19, 18, 17))


def prompt_tokens(
    tokenizer: Any, problem: Problem, model: ModelConfig, **further: Any
) -> list[int]:
    """Return the tokens of a problem, through the model's chat template where it has one.

    `further`: variables of the template besides the model's own. Raises SettingError where the
    template fails: it would for every attempt of a run.
    """
    if tokenizer.chat_template is None:
        return list(tokenizer(problem.prompt)["input_ids"])
    messages = [{"role": "user", "content": problem.prompt}]
    if model.system_prompt is not None:
        messages.insert(0, {"role": "system", "content": model.system_prompt})
    variables = {**further, **(model.chat_template_kwargs or {})}
    try:
        read = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, **variables
        )
    # A template's own refusal, its syntax, or any error of the expressions in it.
    except Exception as error:
        roles = " and ".join(message["role"] for message in messages)
        rule = f"its chat template fails on a message of {roles}: {type(error).__name__}: {error}"
        nearest = "a copy of the model with another chat_template.jinja"
        if model.asks_for_a_template:
            nearest = f"model.system_prompt=null model.chat_template_kwargs=null, or {nearest}"
        raise _refused(model, rule, nearest) from None
    return list(read["input_ids"])


def stop_tokens(generation: GenerationConfig, model: ModelConfig, tokenizer: Any) -> list[int]:
    """Return the tokens of `generation.stop`, which end an answer besides the model's own.

    Raises SettingError for a text that is not one token of the model.
    """
    found = []
    for text in generation.stop:
        ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if len(ids) != 1:
            rule = f"{text!r} is {len(ids)} tokens of {model.name}, and each text is to be one"
            raise SettingError("generation.stop", list(generation.stop), rule)
        found += ids
    return found


def require_prompts(
    generation: GenerationConfig, model: ModelConfig, problems: Iterable[Problem]
) -> None:
    """Raise SettingError where a prompt cannot be rendered, ends the answer before it begins, or
    depends on the time of day, and as `stop_tokens`."""
    builtin = model.location is None and model.source == BUILTIN_MODEL
    if builtin and not generation.stop:
        return
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            weights(model), revision=model.revision, trust_remote_code=False
        )
    # The library raises whatever a file leads it to.
    except Exception as error:
        rule = f"its tokenizer cannot be loaded: {type(error).__name__}: {error}"
        raise _refused(model, rule, "a directory with the model's own tokenizer") from None
    stop_tokens(generation, model, tokenizer)
    for problem in problems:
        early, late = (
            prompt_tokens(tokenizer, problem, model, strftime_now=clock.strftime)
            for clock in _CLOCKS
        )
        if early != late:
            rule = (
                "its chat template puts the time into the prompt (strftime_now): runs of one sweep "
                "would read other prompts on another day"
            )
            nearest = "a copy of the model whose chat_template.jinja has a fixed date"
            if "date_string" in str(tokenizer.chat_template):
                nearest = f"model.chat_template_kwargs={{date_string: '26 Jul 2024'}}, or {nearest}"
            raise _refused(model, rule, nearest)
        if early and early[-1] == tokenizer.eos_token_id:
            rule = (
                f"its prompts end with {tokenizer.eos_token}, the end of an answer: what would be "
                "sampled after it is no answer"
            )
            nearest = "a copy of the model whose chat template or tokenizer does not append it"
            raise _refused(model, rule, nearest)


def _refused(model: ModelConfig, rule: str, nearest: str) -> SettingError:
    name = "model.source" if model.path is None else "model.path"
    return SettingError(name, model.path or model.source, rule, nearest)
