"""The built-in model: a Qwen2 of 0.1M parameters that can sort a little, shipped with isosweep."""

import hashlib
from functools import cache
from pathlib import Path

from isosweep.errors import PreflightError

DIRECTORY = Path(__file__).resolve().parent / "tiny"
# Of model.safetensors, as `tests/models/make_builtin.py` once made it.
SHA256 = "e659b952c183b6f7f04d94e0cea74dd9f3875e3ec47523b9896326ccf09499b2"
# What distinguishes this model from any other: its weights.
IDENTITY = f"tiny-{SHA256[:12]}"


@cache
def builtin_model() -> Path:
    """Directory of the built-in model. Raises PreflightError if its weights are not the shipped."""
    file = DIRECTORY / "model.safetensors"
    if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != SHA256:
        raise PreflightError(
            [(f"the built-in model's weights, whole, in {file}", "reinstall isosweep")]
        )
    return DIRECTORY
