"""What a worker costs beside TRL, and TRL beside plain torch: `python benchmarks/worker.py`.

1. Seconds per optimiser step of three sides that train the built-in model alike (task sort, recipe
   tiny, B = 8): a worker of isosweep with its run directory, TRL's bare `GRPOTrainer` with the
   worker's own settings, and a plain torch loop written out below. All live in one process and
   take turns, a block of steps each, so that noise of the machine hits them alike: ratios are
   formed within a round of blocks, and their median and quartiles are printed. Evaluation is kept
   small and rare. The ratio of total seconds also holds checkpoints and reports of state; they go
   by the clock, which runs for the worker while the others take their turns.
2. Seconds from the start of a worker's process to its first optimiser step, by part; and those of
   an interpreter that only imports TRL's trainer.
3. Processor seconds of a record that keeps answers (evaluation.keep_completions=8) and of one that
   keeps none, by runs that are alike otherwise and take turns; and the bytes that it keeps.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import copy
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from frame import Goal, benchmark
from phases import ProcessorTime

from isosweep.config.compose import config_of
from isosweep.config.study import HealthConfig
from isosweep.files import write_json
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import resolve
from isosweep.store.paths import RunPaths
from isosweep.store.records import attempt_file, read_records
from isosweep.tasks import judge as judge_completions
from isosweep.tasks import training_problems
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun

GOALS = {
    "step": Goal("a worker's step over TRL's, the largest median", "at most", 1.05),
    "plain": Goal("a worker's step over plain torch's, the largest median", "at most", 1.3),
    "kept": Goal("a record's seconds with kept answers over those without", "at most", 1.1),
    "start": Goal("seconds to a worker's first step, over importing TRL alone", "at most", 1.0),
}
QUICK = {"num_generations": [2, 8], "blocks": 12, "starts": 1, "rounds": 2}
PROBLEMS_PER_BATCH = 8
LITTLE_EVALUATION = (
    "evaluation.records_per_decade=1",
    "evaluation.samples_per_problem=1",
    "task.num_eval_problems=8",
)
WARM_UP = 10
SIDES = ("worker", "trl", "plain")

# A worker's process, from its imports in the order in which it makes them to its first step.
START = """
import os, sys, time
stamps = [("python, numpy, isosweep", time.time())]
def stamp(part, result=None):
    stamps.append((part, time.time()))
    return result
from isosweep.config.study import HealthConfig
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.session import TrainRun, lean_imports
stamps[0] = ("python, numpy, isosweep", time.time())
with lean_imports():
    import torch
    stamp("torch")
    import datasets
    stamp("datasets")
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from transformers.trainer import DEFAULT_CALLBACKS
    stamp("transformers")
    from trl import GRPOConfig, GRPOTrainer
    stamp("trl")
    import isosweep.training.evaluate
    import isosweep.training.assembly as assembly
    stamp("assembly.py, evaluate.py")

class Stamps(TrainerCallback):
    def on_init_end(self, args, state, control, **_):
        stamp("dataset, trainer")
    def on_train_begin(self, args, state, control, **_):
        stamp("to the start of train()")
    def on_step_begin(self, args, state, control, **_):
        stamp("evaluation at step 0")
        began = float(sys.argv[3])
        for (part, at), before in zip(stamps, [began, *(at for _, at in stamps)]):
            print(part, at - before, sep="\\t")
        os._exit(0)

DEFAULT_CALLBACKS.append(Stamps())
load = assembly.load_policy
assembly.load_policy = lambda *given: stamp("model, tokenizer", load(*given))
train_unsubmitted(TrainRun(sys.argv[1], (float(sys.argv[2]),), "rollouts", HealthConfig()))
"""
BARE = "from trl import GRPOConfig, GRPOTrainer"


class Turns:
    """Lets one side at a time work: its warm-up steps first, then a block of steps each turn."""

    def __init__(self, block: int) -> None:
        self.seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        self._block = block
        self._steps = dict.fromkeys(SIDES, 0)
        self._began = dict.fromkeys(SIDES, 0.0)
        self._order = list(SIDES)
        self._changed = threading.Condition()

    def wait(self, side: str) -> None:
        """Return when it is the turn of `side`."""
        with self._changed:
            self._changed.wait_for(lambda: self._order[0] == side)

    def step(self, side: str) -> None:
        """To be called as each step of `side` begins; hands over after each block."""
        done = self._steps[side] - WARM_UP
        self._steps[side] += 1
        if done < 0 or done % self._block:
            return
        if done:
            self.seconds[side].append((time.perf_counter() - self._began[side]) / self._block)
        with self._changed:
            self._order.append(self._order.pop(0))
            self._changed.notify_all()
        self.wait(side)
        self._began[side] = time.perf_counter()

    def leave(self, side: str) -> None:
        """`side` has ended, whatever came of it."""
        with self._changed:
            self._order.remove(side)
            self._changed.notify_all()


def prepare(
    directory: Path, num_generations: int, steps: int, *changes: str
) -> tuple[RunPaths, RunSpec, float]:
    """A run directory as a sweep makes it, its spec, and the rollouts of `steps` steps."""
    rollouts = float(num_generations * PROBLEMS_PER_BATCH * steps)
    overrides = [
        "budget_unit=rollouts",
        f"budget={rollouts:g}",
        f"grid.num_generations=[{num_generations}]",
        f"grid.problems_per_batch=[{PROBLEMS_PER_BATCH}]",
        "grid.seeds=[0]",
        "grid.min_steps=1",
        *changes,
    ]
    ((run_id, spec),) = resolve(config_of(overrides)).specs.items()
    run = RunPaths(directory / run_id)
    run.root.mkdir(parents=True)
    write_json(run.spec, {"version": 1, "run_id": run_id, "spec": spec.to_json()})
    return run, spec, rollouts


def train_bare(spec: RunSpec, settings: Any, callback: Any) -> None:
    """TRL's trainer with the worker's `settings` (a GRPOConfig), and a reward that only judges."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
    from trl import GRPOTrainer

    problems = training_problems(spec.task)

    def correctness(completions: list[str], problem: list[int], **_: Any) -> list[float]:
        judged = judge_completions(spec.task, [problems[index] for index in problem], completions)
        return [each.score for each in judged]

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(weights(spec.model)),
        reward_funcs=correctness,
        args=settings,
        train_dataset=Dataset.from_list(
            [{"prompt": each.prompt, "problem": index} for index, each in enumerate(problems)]
        ),
        processing_class=AutoTokenizer.from_pretrained(weights(spec.model), padding_side="left"),
        callbacks=[callback],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def train_plain(spec: RunSpec, steps: int, on_step: Callable[[], None]) -> None:
    """GRPO with the dapo loss, strictly on-policy, and nothing else; prompts of equal length."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    recipe, n = spec.recipe, spec.num_generations
    model = AutoModelForCausalLM.from_pretrained(weights(spec.model)).train()
    tokenizer = AutoTokenizer.from_pretrained(weights(spec.model))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=spec.learning_rate,
        betas=(0.9, recipe.trl.get("adam_beta2", 0.999)),
        weight_decay=recipe.trl.get("weight_decay", 0.0),
        fused=True,
    )
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / max(recipe.warmup_steps, 1))
    )
    problems = training_problems(spec.task)
    prompts = torch.tensor(tokenizer([problem.prompt for problem in problems])["input_ids"])
    order: list[int] = []
    for _ in range(steps):
        on_step()
        if len(order) < spec.problems_per_batch:
            order = torch.randperm(len(problems)).tolist()
        drawn = [order.pop() for _ in range(spec.problems_per_batch)]
        prompt = prompts[drawn].repeat_interleave(n, dim=0)
        completion, mask = _sample(model, prompt, spec, tokenizer.eos_token_id)
        texts = tokenizer.batch_decode(completion * mask, skip_special_tokens=True)
        asked = [problems[index] for index in drawn for _ in range(n)]
        judged = judge_completions(spec.task, asked, texts)
        reward = torch.tensor([each.score for each in judged]).view(-1, n)
        centred = reward - reward.mean(1, keepdim=True)
        advantage = (centred / (reward.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        logits = model(
            torch.cat([prompt, completion], dim=1), logits_to_keep=completion.shape[1] + 1
        ).logits[:, :-1]
        log_softmax = torch.log_softmax(logits / recipe.temperature, dim=-1)
        logs = log_softmax.gather(2, completion.unsqueeze(2)).squeeze(2)
        ratio = torch.exp(logs - logs.detach())
        clipped = ratio.clamp(1 - recipe.epsilon, 1 + recipe.epsilon_high)
        gain = torch.minimum(ratio * advantage, clipped * advantage)
        loss = -(gain * mask).sum() / mask.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.trl.get("max_grad_norm", 1.0))
        optimizer.step()
        rate.step()
        optimizer.zero_grad()


def _sample(model: Any, prompt: Any, spec: RunSpec, eos: int) -> tuple[Any, Any]:
    """Completions and their masks (rollouts, tokens), sampled with a KV cache until all end."""
    import torch

    read, cache = prompt, None
    tokens: list[Any] = []
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    masks = []
    with torch.no_grad():
        while len(tokens) < spec.task.completion_limit and not ended.all():
            out = model(read, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache = out.past_key_values
            chances = torch.softmax(out.logits[:, -1] / spec.recipe.temperature, dim=-1)
            read = torch.multinomial(chances, 1)
            tokens.append(read)
            masks.append(~ended)
            ended = ended | (read[:, 0] == eos)
    return torch.cat(tokens, dim=1), torch.stack(masks, dim=1).long()


def measure_steps(num_generations: int, block: int, blocks: int) -> dict[str, list[float]]:
    """Seconds per step of every side: `blocks` means over `block` steps each."""
    import torch
    from transformers import TrainerCallback
    from transformers.trainer import DEFAULT_CALLBACKS
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.set_num_threads(1)
    turns = Turns(block)
    settings: list[Any] = []
    # The last block is timed as the step after it begins.
    steps = WARM_UP + blocks * block + 1

    class Clock(TrainerCallback):  # type: ignore[misc]
        def __init__(self, side: str) -> None:
            self._side = side

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self in DEFAULT_CALLBACKS:
                DEFAULT_CALLBACKS.remove(self)
                settings.append(copy.deepcopy(args))

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            turns.step(self._side)

    def side(name: str, train: Callable[[], None]) -> None:
        try:
            turns.wait(name)
            train()
        finally:
            turns.leave(name)

    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor() as pool:
        run, spec, rollouts = prepare(Path(directory), num_generations, steps, *LITTLE_EVALUATION)

        def worker() -> None:
            # What the next trainer starts with: the worker makes its own.
            DEFAULT_CALLBACKS.append(Clock("worker"))
            job = TrainRun(str(run.root), (rollouts,), "rollouts", HealthConfig())
            assert train_unsubmitted(job) == "finished"

        def bare() -> None:
            args = settings[0]
            args.output_dir, args.max_steps = f"{directory}/bare", steps
            train_bare(spec, args, Clock("trl"))

        def plain() -> None:
            train_plain(spec, steps, lambda: turns.step("plain"))

        others = [pool.submit(side, "trl", bare), pool.submit(side, "plain", plain)]
        # In the main thread: a worker handles signals.
        side("worker", worker)
        for other in others:
            other.result()
    return turns.seconds


def measure_start(repeats: int) -> tuple[dict[str, float], float]:
    """Seconds by part, medians, of a worker's start; and of importing TRL's trainer alone."""
    measured: dict[str, list[float]] = {}
    bare = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as directory:
            run, _, rollouts = prepare(Path(directory), 2, 100)
            words = [sys.executable, "-c", START, str(run.root), str(rollouts), str(time.time())]
            printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for line in printed.splitlines():
            part, seconds = line.split("\t")
            measured.setdefault(part, []).append(float(seconds))
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", BARE], capture_output=True, check=True)
        bare.append(time.perf_counter() - began)
    return {part: statistics.median(each) for part, each in measured.items()}, statistics.median(
        bare
    )


def measure_records(rounds: int) -> dict[int, list[float]]:
    """Processor seconds of every record but the first, by the problems whose answers it keeps;
    prints the bytes that it keeps."""
    from isosweep.training import attempt, ledger, loop

    seconds: dict[int, list[float]] = {0: [], 8: []}
    sizes = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            for keep in list(seconds)[:: 1 if number % 2 else -1]:
                place = Path(directory, f"{number}-{keep}", "runs")
                changes = f"evaluation.keep_completions={keep}", "evaluation.records_per_decade=4"
                run, _, rollouts = prepare(place, 8, 16, *changes)
                job = TrainRun(str(run.root), (rollouts,), "rollouts", HealthConfig())
                with ExitStack() as patched:
                    for module in (attempt, ledger, loop):
                        patched.enter_context(patch.object(module, "time", ProcessorTime("time")))
                    assert train_unsubmitted(job) == "finished"
                records = read_records(run.records).records
                seconds[keep] += [record.seconds for record in records[1:]]
                if keep:
                    files = attempt_file(run.completions, 1), attempt_file(run.records, 1)
                    sizes.append([path.stat().st_size / len(records) for path in files])
    kept, whole = (statistics.median(each) for each in zip(*sizes, strict=True))
    print(f"bytes of a record: {whole:,.0f}; of the answers beside it: {kept:,.0f}")
    return seconds


def ratio(over: list[float], under: list[float]) -> tuple[float, str]:
    """Median of the ratios within rounds; and it with quartiles and the ratio of total seconds."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return middle, f"{middle:5.2f} ({low:.2f}-{high:.2f}; all {sum(over) / sum(under):.2f})"


OPTIONS = {
    "--num-generations": [2, 8, 32],
    "--block": (4, "steps of a turn"),
    "--blocks": (20, "turns of each side"),
    "--starts": (3, "starts of a process"),
    "--rounds": (6, "runs with kept answers, and as many without"),
}


def measure(options: Namespace) -> dict[str, float]:
    """Time steps and starts, and print what they take."""
    print(f"ms a step, medians of {options.blocks} blocks of {options.block}; B = 8, one thread")
    titles = "".join(f"{side:>9}" for side in SIDES)
    pairs = (("worker", "trl"), ("worker", "plain"), ("trl", "plain"))
    print(f"{'n':>4}{titles}" + "".join(f"   {a + ' / ' + b:<26}" for a, b in pairs))
    figures = {"step": 0.0, "plain": 0.0}
    for n in options.num_generations:
        seconds = measure_steps(n, options.block, options.blocks)
        medians = "".join(f"{statistics.median(seconds[side]) * 1e3:9.1f}" for side in SIDES)
        ratios = {(a, b): ratio(seconds[a], seconds[b]) for a, b in pairs}
        figures["step"] = max(figures["step"], ratios["worker", "trl"][0])
        figures["plain"] = max(figures["plain"], ratios["worker", "plain"][0])
        print(f"{n:4}{medians}" + "".join(f"   {text:<26}" for _, text in ratios.values()))
    parts, bare = measure_start(options.starts)
    print(f"seconds from a worker's start to its first step, medians of {options.starts}:")
    for part, each in parts.items():
        print(f"  {part:<24} {each:6.2f}")
    print(f"  {'in all':<24} {sum(parts.values()):6.2f}   importing TRL's trainer alone {bare:.2f}")
    without, kept = measure_records(options.rounds).values()
    middle, text = ratio(kept, without)
    each_ms = [statistics.median(each) * 1e3 for each in (without, kept)]
    print("ms a record of 256 problems x 8 answers, medians: without, and with kept answers")
    print(f"  {each_ms[0]:.1f} {each_ms[1]:.1f}   with / without {text}")
    return figures | {"kept": middle, "start": sum(parts.values()) / bare}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
