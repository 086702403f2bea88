"""Tokens that end an answer besides those that the model was saved with."""

from collections.abc import Callable
from pathlib import Path

from isosweep.config.generation import GenerationConfig
from isosweep.config.model import ModelConfig
from isosweep.errors import SettingError
from isosweep.models.weights import weights


def stop_tokens(
    generation: GenerationConfig, model: ModelConfig, encode: Callable[[str], list[int]]
) -> list[int]:
    """Tokens of `generation.stop`, by what `encode` makes of a text without special tokens.

    Raises SettingError for a text that is not one token of the model.
    """
    found = []
    for text in generation.stop:
        ids = encode(text)
        if len(ids) != 1:
            rule = f"{text!r} is {len(ids)} tokens of {model.name}, and each text is to be one"
            raise SettingError("generation.stop", list(generation.stop), rule)
        found += ids
    return found


def require_stops(generation: GenerationConfig, model: ModelConfig) -> None:
    """Raises as `stop_tokens`, where the model's tokenizer lies here as a file."""
    place = Path(weights(model)) / "tokenizer.json"
    if generation.stop and place.is_file():
        from tokenizers import Tokenizer

        own = Tokenizer.from_file(str(place))
        stop_tokens(generation, model, lambda text: own.encode(text, add_special_tokens=False).ids)
