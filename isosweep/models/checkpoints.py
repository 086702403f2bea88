"""Whether a saved model is whole: asked of transformers, which loads no weight for it."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from isosweep.config.model_files import models_in
from isosweep.files import read_foreign_json
from isosweep.gguf import quiet_transformers

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Files of which a tokenizer without tokenizer.json needs one whole set.
_VOCABULARIES = (("vocab.json", "merges.txt"), ("tokenizer.model",), ("vocab.txt",))


def broken_parts(directory: Path, vocab_size: int) -> list[str]:
    """What is wrong with the model saved in `directory`; [] if it is whole.

    `vocab_size` is that of its config.json: the tokenizer has to agree with it. Whether all tensors
    are there is found where transformers is installed.
    """
    problems = list(_tokenizer_problems(directory, vocab_size))
    if not any((directory / name).exists() for name in (SINGLE, INDEX)):
        inside = models_in(directory)
        where = f", as in {inside[-1]}" if inside else ""
        return [*problems, f"{SINGLE} or {INDEX} in {directory}{where}"]
    if not problems and find_spec("torch") and find_spec("transformers"):
        fault = _load_fault(directory)
        if fault is not None:
            problems.append(f"agreement of the weights in {directory} with config.json: {fault}")
    return problems


def _load_fault(directory: Path) -> str | None:
    """What transformers finds amiss when it loads the model to the `meta` device, where tensors
    have no values; None for nothing."""
    from transformers import AutoModelForCausalLM

    try:
        with quiet_transformers():
            _, report = AutoModelForCausalLM.from_pretrained(
                directory,
                device_map="meta",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                trust_remote_code=False,
            )
    except RuntimeError:
        return "of the experts' tensors, which are put together, some are missing"
    # Of files that are cut or missing, and a configuration that transformers refuses.
    except Exception as error:
        return f"transformers cannot load them ({' '.join(str(error).split())})"
    return load_difference(report)


def load_difference(report: Mapping[str, Any]) -> str | None:
    """How the tensors of the files differ from the model's, by transformers' report of loading
    (`output_loading_info=True`); None if each has its place."""
    missing, unused = sorted(report["missing_keys"]), sorted(report["unexpected_keys"])
    parts = [
        f"{name} has shape {list(found)}, and config.json implies {list(wanted)}"
        for name, found, wanted in sorted(report["mismatched_keys"])[:1]
    ]
    if missing:
        parts.append(f"missing {_some(missing)}")
    if unused:
        parts.append(f"left over {_some(unused)}")
    wrappers = (n.removesuffix(m) for n in unused for m in missing if n.endswith(f".{m}"))
    if prefix := next(wrappers, None):
        parts.append(f"a wrapper put {prefix!r} before the names: save the model inside of it")
    return "; ".join(parts) or None


def _some(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} others"


def _tokenizer_problems(directory: Path, vocab_size: int) -> Iterator[str]:
    whole = directory / "tokenizer.json"
    if not whole.exists():
        config = (directory / "tokenizer_config.json").exists()
        vocabulary = any(
            all((directory / name).exists() for name in names) for names in _VOCABULARIES
        )
        if not (config and vocabulary):
            yield f"tokenizer.json (or tokenizer_config.json and a vocabulary) in {directory}"
        return
    try:
        document = read_foreign_json(whole)
        vocabulary = document["model"]["vocab"]
        # Unigram models list their tokens, the others map tokens to ids.
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = (token["id"] for token in document.get("added_tokens") or ())
        largest = int(max([*ids, *added], default=-1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield f"a readable {whole} ({error})"
        return
    if largest >= vocab_size:
        yield (
            f"agreement of {whole} with config.json: it has token {largest}, and vocab_size is "
            f"{vocab_size}"
        )
