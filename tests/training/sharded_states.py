"""A process of test_sharded.py: what it holds of a model, and how gradients are summed."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from isosweep.plan.spec import RunSpec


def held(tensors: Any) -> int:
    """Bytes of this process's parts of them."""
    parts = [each.to_local() if hasattr(each, "to_local") else each for each in tensors]
    return sum(part.numel() * part.element_size() for part in parts)


def report(spec: RunSpec, directory: Path) -> dict[str, Any]:
    from accelerate.state import AcceleratorState
    from torch.distributed.fsdp import fully_shard

    from tests.training.builders import train, trainer_of

    # The run before may have had another precision.
    AcceleratorState._reset_state()
    trainer = trainer_of(spec, directory)
    found: dict[str, Any] = {}
    step = trainer.training_step

    def training_step(*given: Any) -> Any:
        made = step(*given)
        # Before the first update: the gradients of a micro-batch that others follow.
        gradients = [each.grad for each in trainer.model.parameters() if each.grad is not None]
        found.setdefault("gradients", held(gradients))
        return made

    trainer.training_step = training_step
    train(trainer, 2)
    states = [state for each in trainer.optimizer.state.values() for state in each.values()]
    reference = trainer.ref_model
    found |= {"weights": held(trainer.model.parameters()), "optimizer": held(states)}
    found["reference"] = 0 if reference is None else held(reference.parameters())
    return {**found, "summed in": str(fully_shard.state(trainer.model)._mp_policy.reduce_dtype)}


if __name__ == "__main__":
    out = Path(sys.argv[1])
    specs = [RunSpec.from_json(json.loads(Path(file).read_text())) for file in sys.argv[2:]]
    made = [report(spec, out / "checkpoints") for spec in specs]
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(made))
