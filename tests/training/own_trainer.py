"""A trainer of somebody's: its reward is a formula, its log JSON lines, its checkpoint a file.

It imports nothing of isosweep. `--fault` is what goes wrong with it.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# A process that no request ends.
_STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("n", "batch", "steps", "seed", "every"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--fault", default="")
    given = parser.parse_args()
    first = 0 if given.resume is None else json.loads((given.resume / "state.json").read_text())
    (given.out / "told").write_text(str(given.steps))
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    if given.fault == "crash":
        sys.stderr.write("no such device\n")
        return 3
    if given.fault == "silent":
        return 0
    if given.fault == "child":
        child = subprocess.Popen([sys.executable, "-c", _STUBBORN])
        (given.out / "child").write_text(str(child.pid))
    steps = {"early": given.steps // 2, "more": 3 * given.steps}.get(given.fault, given.steps)
    with (given.out / "log.jsonl").open("a", buffering=1) as log:

        def line(**values: float) -> None:
            log.write(json.dumps(values) + "\n")

        def reward(step: int) -> float:
            shape: float = 1 - math.exp(-step * math.sqrt(given.n) / 200)
            return 0.2 + 0.5 * shape + float(given.seed) / 100

        if first == 0 and given.fault != "unscored":
            line(step=0, eval_reward=reward(0))
        for step in range(first + 1, steps + 1):
            time.sleep(given.pause)
            each = given.n * given.batch * 20
            wrong = {"liar": step, "falling": 10**6 - step}
            tokens = wrong.get(given.fault, step * each)
            line(step=step, reward=reward(step) - 0.1, num_tokens=tokens)
            if step % given.every == 0:
                if given.fault != "unscored":
                    line(step=step, eval_reward=reward(step))
                place = given.out / f"ckpt-{step}"
                place.mkdir()
                (place / "state.json").write_text(str(step))
            if asked:
                break
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
