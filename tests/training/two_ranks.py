"""One of the processes that test_ranks.py starts: trains each run, and reports what it sampled."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from isosweep.plan.spec import RunSpec


def report(spec: RunSpec, directory: Path, steps: int) -> dict[str, Any]:
    from tests.training.builders import listen, train, trainer_of

    trainer = trainer_of(spec, directory)
    heard = listen(trainer)
    metrics = train(trainer, steps)
    spent, problems = trainer.ledger.spent, [step["problem"] for step in heard]
    ids = [ids for step in heard for ids in step["ids"]]
    prompts = [len(trainer.prompts[i]) for step in problems for i in step]
    return {
        "problems": problems,
        "ids": [step["ids"] for step in heard],
        "sampled": [len(ids), sum(prompts), sum(map(len, ids))],
        "spent": [spent.rollouts, spent.prompt_tokens, spent.completion_tokens],
        "flops": spent.flops,
        "hardware_flops": spent.hardware_flops,
        "rewards": [values["reward"] for values in metrics],
        "losses": [values["loss"] for values in metrics],
        "weights": float(sum(p.detach().double().sum() for p in trainer.model.parameters())),
    }


def main(out: Path, steps: int, specs: list[str]) -> None:
    found = [
        report(RunSpec.from_json(json.loads(Path(file).read_text())), out / "checkpoints", steps)
        for file in specs
    ]
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
