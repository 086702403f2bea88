"""What accelerate and TRL leave out of FSDP2, by torch's `fully_shard`: the policy's, and a
reference model's.

accelerate shards the policy a layer at a time when training begins. All of it is run on two
processes by tests/training/test_sharded.py.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from trl.trainer import grpo_trainer

from isosweep.training.changed import changed


def sharded_reference() -> AbstractContextManager[None]:
    """A trainer made within the block shards its reference model as accelerate does the policy.

    A layer at a time, with the weights that the first process read. TRL's own shards the model as
    one, whole on every device at each pass, and leaves the other processes what they have, zeros.
    """

    def prepared(model: Any, accelerator: Any) -> Any:
        return fsdp2_prepare_model(accelerator, model.requires_grad_(False)).eval()

    return changed(grpo_trainer, prepare_fsdp=prepared)


def compute_as_replicated(accelerator: Any) -> None:
    """Have gradients summed over devices in float32, and log-probabilities left as they are.

    To be called before the policy is sharded. accelerate has both in the precision that is computed
    in: of bfloat16 a bias of gradients that grows with n x B, and log-probabilities of two digits.
    """
    plugin = accelerator.state.fsdp_plugin
    own = plugin.mixed_precision_policy or MixedPrecisionPolicy()
    exactly = replace(own, reduce_dtype=torch.float32, output_dtype=None)
    plugin.mixed_precision_policy = exactly


def resharded(model: Any, synchronise: Callable[[], None]) -> Callable[[], None]:
    """`synchronise`, before which all of `model` is sharded.

    A forward pass leaves its last layers gathered for a backward pass that may not come, and TRL's
    transfer of weights takes every parameter for a shard.
    """

    def whole_no_longer() -> None:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
        synchronise()

    return whole_no_longer
