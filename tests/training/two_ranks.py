"""One of the processes that test_ranks.py starts: trains, and reports what it sampled."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec


def main(spec_file: str, out: str, steps: int) -> None:
    import torch

    from isosweep.training.grpo import load_policy, make_stream, make_trainer
    from isosweep.training.ledger import Ledger
    from tests.training.test_microbatches import batch_of, compared
    from tests.training.until import Until

    torch.set_num_threads(1)
    spec = RunSpec.from_json(json.loads(Path(spec_file).read_text()))
    torch.manual_seed(spec.seed)
    ledger, stream = Ledger(spec), make_stream(spec)
    model, tokenizer = load_policy(spec, weights(spec.model))
    trainer = make_trainer(spec, model, tokenizer, ledger, stream, Path(out) / "checkpoints")
    right = trainer.reward_funcs[0]
    sampled: dict[str, Any] = {"problems": [], "rollouts": 0, "prompt_tokens": 0, "tokens": 0}

    def correctness(**given: Any) -> list[float]:
        ids, problems = given["completion_ids"], given["problem"]
        sampled["problems"].append(problems)
        sampled["rollouts"] += len(ids)
        sampled["tokens"] += sum(len(tokens) for tokens in ids)
        sampled["prompt_tokens"] += sum(len(trainer._questions[i].tokens) for i in problems)
        scores: list[float] = right(**given)
        return scores

    trainer.reward_funcs[0] = correctness
    until = Until(steps, ledger)
    trainer.follow(until)
    trainer.train()
    spent = ledger.spent
    sampled |= {
        "rewards": [values["reward"] for values in until.metrics],
        "losses": [values["loss"] for values in until.metrics],
        "spent": [spent.rollouts, spent.prompt_tokens, spent.completion_tokens],
        "flops": spent.flops,
        "hardware_flops": spent.hardware_flops,
        "weights": float(sum(p.detach().double().sum() for p in trainer.model.parameters())),
    }
    batch = batch_of(trainer)
    trainer.model.train().double()
    sampled["apart"] = compared(trainer, batch)
    (Path(out) / f"{os.environ['RANK']}.json").write_text(json.dumps(sampled))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
