"""One of the two processes that test_sampling.py starts: samples with a model that both have parts
of, until its own answers end, which is later in the second."""

import json
import sys
from pathlib import Path

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers import AutoModelForCausalLM

from isosweep.training.sampling import Sampler, streams


def main(saved: str, out: Path) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = AutoModelForCausalLM.from_pretrained(saved).eval()
    every = [] if rank else list(range(model.config.vocab_size))
    sampler = Sampler(limit=6, temperature=1.0, ends=every, padding=0)
    numbers = streams(0, [(str(rank), 0)])
    alone = sampler.sample(model, [[5, 6, 7]], numbers)
    layers = ModuleWrapPolicy({type(model.model.layers[0])})
    parts = FullyShardedDataParallel(model, auto_wrap_policy=layers, device_id=torch.device("cpu"))
    together = sampler.sample(parts, [[5, 6, 7]], numbers)
    (out / f"{rank}.json").write_text(json.dumps([alone, together]))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
