"""The policy to train."""

import math
from dataclasses import dataclass

from isosweep.config.architecture import Architecture
from isosweep.config.rules import positive, require

BUILTIN_MODEL = "builtin"


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A policy to train. `source` is `builtin` (shipped with isosweep) or a hub name.

    `path` loads weights from a directory instead, and `architecture` is then read from its
    config.json; otherwise it is the model's published one. `revision` pins a hub model.
    """

    name: str
    source: str
    path: str | None = None
    revision: str | None = None
    architecture: Architecture

    def __post_init__(self) -> None:
        arch = self.architecture
        sizes = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim")
        positive("model.architecture", arch, *sizes, "intermediate_size", "vocab_size")
        require(
            arch.num_heads % arch.num_kv_heads == 0,
            "model.architecture.num_kv_heads",
            arch.num_kv_heads,
            f"must divide num_heads={arch.num_heads}",
            f"model.architecture.num_kv_heads={math.gcd(arch.num_heads, arch.num_kv_heads)}",
        )
        if arch.num_experts:
            name = "model.architecture.num_experts_per_token"
            rule = f"must lie between 1 and num_experts={arch.num_experts}"
            holds = 1 <= arch.num_experts_per_token <= arch.num_experts
            require(holds, name, arch.num_experts_per_token, rule, f"{name}=1")
            positive("model.architecture", arch, "expert_intermediate_size")
