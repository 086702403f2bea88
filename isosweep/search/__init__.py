"""Which run to train next; `FrontierSampler` and `FrontierPruner` for any Optuna study."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isosweep.search.sampler import FrontierPruner, FrontierSampler

__all__ = ["FrontierPruner", "FrontierSampler"]


def __getattr__(name: str) -> type:
    # Optuna is imported by whoever asks for these, and by nobody else.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from isosweep.search import sampler

    found: type = getattr(sampler, name)
    return found
