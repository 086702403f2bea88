"""One of the processes that tests of sharding start: what each holds of a model after two steps."""

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


def moved(model: Any, directory: str | Path) -> float:
    """How far frozen weights are from those that were read, at most."""
    from safetensors.torch import load_file

    read = load_file(Path(directory) / "model.safetensors")
    frozen = [pair for pair in model.named_parameters() if not pair[1].requires_grad]
    gaps = [0.0]
    for name, weight in frozen:
        before = read[name.removeprefix("base_model.model.").replace(".base_layer", "")]
        gaps.append(float((weight.full_tensor() - before.to(weight.dtype)).abs().max()))
    return max(gaps)


def report(spec: RunSpec, directory: Path) -> dict[str, Any]:
    from accelerate.state import AcceleratorState
    from torch.distributed.fsdp import fully_shard

    from isosweep.models.weights import weights
    from isosweep.training.vllm import make_sampler
    from tests.training.builders import train, trainer_of

    # The run before may have had another precision.
    AcceleratorState._reset_state()
    trainer = trainer_of(spec, directory)
    make_sampler(spec, trainer, trainer.processing_class)
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
    found["weights"] = held(trainer.model.parameters())
    states = [state for each in trainer.optimizer.state.values() for state in each.values()]
    found["optimizer"] = held(states)
    reference = trainer.ref_model
    found["reference"] = 0 if reference is None else held(reference.parameters())
    if spec.sharding == "fsdp":
        found["moved"] = moved(trainer.model, weights(spec.model))
        found["reduced"] = str(fully_shard.state(trainer.model)._mp_policy.reduce_dtype)
    else:
        # Copies of the gradients, in which they are exchanged.
        buckets = trainer.model_wrapped.reducer._get_zeros_like_grad_buckets()
        found["gradients"] += sum(held([bucket.buffer()]) for bucket in buckets)
    return found


def main(out: Path, files: list[str]) -> None:
    specs = [RunSpec.from_json(json.loads(Path(file).read_text())) for file in files]
    found = [report(spec, out / "checkpoints") for spec in specs]
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
