"""The policy to train."""

from typing import Annotated

from isosweep.config.architecture import Architecture
from isosweep.config.identity import OUTSIDE
from isosweep.config.settings import settings

BUILTIN_MODEL = "builtin"


@settings("model")
class ModelConfig:
    """A policy to train."""

    name: Annotated[str, OUTSIDE]
    """Name in the names of runs, and in tables."""
    source: str
    """`builtin` (shipped with isosweep), or a name on the Hugging Face hub."""
    path: str | None = None
    """Directory to load weights from instead; the architecture is that of its config.json."""
    revision: str | None = None
    """Revision of a hub model; null: the newest."""
    architecture: Architecture
    """The shape that costs are computed from."""
