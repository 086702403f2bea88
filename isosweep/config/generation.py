"""What samples the rollouts."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from isosweep.config.architecture import Architecture
from isosweep.config.base import Settings
from isosweep.config.identity import OUTSIDE
from isosweep.config.values import PositiveInt
from isosweep.errors import SettingError

Backend = Literal["transformers", "vllm"]

# vLLM pads the vocabulary to a multiple of it (model_executor/layers/vocab_parallel_embedding.py).
_VOCABULARY_PADDING = 64


def _listed(value: Any) -> tuple[str, ...]:
    """A list of texts, as YAML and JSON have it, as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError("must be a list of texts, like ['5']: a digit has quotes")
    return tuple(value)


class GenerationConfig(Settings, group="generation"):
    """How rollouts and held-out answers are sampled."""

    name: Backend
    """The library."""
    prefix_sharing: bool = False
    """Read a problem's prompt once for its n rollouts (in evaluation, for its k answers)."""
    importance_sampling_correction: bool = False
    """Compute log-probabilities again in the trainer, and correct the loss for the sampler's
    numerical differences."""
    stop: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Further texts that end an answer, one token each, in training and evaluation. Without one, a
    base model goes on to the limit."""
    # Where vLLM's memory and weights are while nothing is sampled changes nothing sampled.
    sleep: Annotated[bool, OUTSIDE] = False
    """vLLM frees its memory during updates."""
    tensor_parallel: PositiveInt = 1
    """Devices of one vLLM engine."""
    # Where rollouts that wait are sampled changes nothing sampled.
    overlap: Annotated[bool, OUTSIDE] = False
    """Sample the next rollouts in a second process while this generation is trained on, on the last
    device of `hardware.devices_per_run`, or on a further core of a CPU; needs
    `recipe.rollout_lag` of 1 or more."""

    def _check(self) -> None:
        if "" in self.stop or len({*self.stop}) < len(self.stop):
            raise self._refused("stop", "has an empty text, or one twice")
        for name in ("importance_sampling_correction", "sleep"):
            if self.name != "vllm" and getattr(self, name):
                raise self._refused(name, "only generation=vllm does that")
        if self.name != "vllm" and self.tensor_parallel > 1:
            raise self._refused("tensor_parallel", "above 1, only generation=vllm does that")

    def sampling_devices(self, training: int) -> int:
        """Devices that sample, where `training` devices train."""
        return 1 if self.overlap else training

    def _refused(self, name: str, rule: str) -> SettingError:
        return SettingError(f"generation.{name}", getattr(self, name), rule)


def splits(arch: Architecture, size: int) -> bool:
    """Whether vLLM can spread the model over `size` devices.

    Heads, MLP and the padded vocabulary are divided; key and value heads are divided, or
    repeated where there are fewer (QKVParallelLinear, model_executor/layers/linear.py, vLLM 0.31).
    """
    kv_heads, padding = arch.num_kv_heads, _VOCABULARY_PADDING
    divided = [arch.num_heads, max(kv_heads, size), -(-arch.vocab_size // padding) * padding]
    if arch.num_moe_layers < arch.num_layers:
        divided.append(arch.intermediate_size)
    if arch.num_moe_layers:
        divided.append(arch.expert_intermediate_size)
    return all(width % size == 0 for width in divided) and max(kv_heads, size) % kv_heads == 0
