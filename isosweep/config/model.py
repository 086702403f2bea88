"""The policy to train."""

from pathlib import Path
from typing import Annotated, Any

from isosweep.config.architecture import Architecture
from isosweep.config.base import Settings
from isosweep.config.identity import OUTSIDE

BUILTIN_MODEL = "builtin"


class ModelConfig(Settings, group="model"):
    """The model that is trained."""

    name: Annotated[str, OUTSIDE]
    """Name in tables and run names."""
    source: str
    """`builtin` (shipped with isosweep), or a name on the Hugging Face hub."""
    path: str | None = None
    """Directory with weights, or one GGUF file, in place of `source`. Its config.json sets the
    architecture."""
    # Where a model lies changes no number; `path`, as it was typed, has always taken part.
    directory: Annotated[str | None, OUTSIDE] = None
    """Directory that a relative `path` starts from, filled in when the settings are read."""
    converted: Annotated[str | None, OUTSIDE] = None
    """Directory that a GGUF file was converted to, filled in when the settings are read."""
    revision: str | None = None
    """Revision of a hub model; null: the newest."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments of the chat template, such as {enable_thinking: false} for Qwen3; in training,
    evaluation and `mode=difficulty`."""
    system_prompt: str | None = None
    """First message of every conversation; null: only what the template adds."""
    architecture: Architecture
    """The shape that costs are computed from."""

    @property
    def location(self) -> Path | None:
        """Directory to load weights from, wherever this process works; None: the hub's."""
        if self.converted is not None:
            return Path(self.converted)
        return None if self.path is None else Path(self.directory or "", self.path)

    @property
    def asks_for_a_template(self) -> bool:
        """Whether a setting acts through the chat template alone."""
        return bool(self.chat_template_kwargs) or self.system_prompt is not None
