"""Predicted against measured memory, tokens per second and seconds per step of real GRPO steps.

    make bench-gpu                                        # Qwen2.5-0.5B and 1.5B on this GPU
    python benchmarks/gpu.py --model tiny --hardware cpu  # the same code on a CPU

The models have the published architectures and random weights, so they never end an answer:
every completion is as long as allowed, and lengths are known. Nothing is downloaded.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from transformers import Qwen2Config, Qwen2ForCausalLM, TrainerCallback

from isosweep.candidates import enumerate_candidates
from isosweep.config import SweepConfig, config_directory, from_hydra
from isosweep.grpo import make_stream, make_trainer
from isosweep.ledger import Ledger
from isosweep.settings import ModelConfig
from isosweep.spec import RunSpec, run_spec
from isosweep.tiny import character_tokenizer


def config_of(model: str, hardware: str, completion: int, prompt: int) -> SweepConfig:
    """One (n, B) of `model` with completions of exactly `completion` tokens."""
    overrides = [
        f"model={model}",
        f"hardware={hardware}",
        "generation=transformers",
        "task=sort",
        f"task.sort.levels=[{prompt - 2}]",
        f"task.prompt_tokens={prompt}",
        f"task.completion_tokens={completion}",
        f"task.max_completion_tokens={completion}",
        "grid=tiny",
        "grid.num_generations=[8]",
        "grid.problems_per_batch=[8]",
        "grid.min_steps=1",
        "budget_unit=rollouts",
        "budget=6400",
    ]
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return from_hydra(compose("config", overrides=overrides))


def random_model(model: ModelConfig) -> Any:
    """The architecture with random weights, in float32."""
    arch = model.architecture
    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=arch.vocab_size,
            hidden_size=arch.hidden_size,
            intermediate_size=arch.intermediate_size,
            num_hidden_layers=arch.num_layers,
            num_attention_heads=arch.num_heads,
            num_key_value_heads=arch.num_kv_heads,
            tie_word_embeddings=arch.tie_word_embeddings,
            eos_token_id=None,
            bos_token_id=None,
            pad_token_id=0,
        )
    )


class _Clock(TrainerCallback):  # type: ignore[misc]
    """Seconds at which steps end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


def measure(spec: RunSpec, steps: int) -> tuple[list[float], Ledger, float | None]:
    """Seconds of each step after the first, what was spent, and peak bytes (None on a CPU)."""
    ledger, clock = Ledger(spec), _Clock()
    tokenizer = character_tokenizer()
    tokenizer.padding_side = "left"
    with tempfile.TemporaryDirectory() as directory:
        model = random_model(spec.model)
        trainer = make_trainer(spec, model, tokenizer, ledger, make_stream(spec), Path(directory))
        trainer.args.max_steps = steps + 1
        trainer.args.save_strategy = "no"
        trainer.generation_config.min_new_tokens = spec.task.completion_limit
        trainer.add_callback(clock)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        trainer.train()
    peak = float(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else None
    return np.diff(clock.ends).tolist(), ledger, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", default=["qwen-0.5b", "qwen-1.5b"])
    parser.add_argument("--hardware", default="h200")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--completion", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{where}, torch {torch.__version__}; n=8, B=8, {options.steps} steps after the first")
    for name in options.model:
        config = config_of(name, options.hardware, options.completion, options.prompt)
        (table,) = enumerate_candidates(config)
        micro = int(table.memory.micro_batch[0, 0])
        spec = run_spec(config, num_generations=8, problems_per_batch=8, seed=0, micro_batch=micro)
        seconds, ledger, peak = measure(spec, options.steps)
        mean = float(np.mean(seconds))
        generated = 64 * options.completion
        counted = ledger.spent.completion_tokens / ledger.spent.rollouts
        assert counted == options.completion, f"{counted} tokens a completion"
        predicted = float(table.seconds[0, 0])
        print(f"{name}, micro-batch {micro}:")
        print(
            f"  seconds per step   predicted {predicted:8.3f}  measured {mean:8.3f}  "
            f"ratio {predicted / mean:.2f}"
        )
        print(
            f"  generated tokens/s predicted {generated / predicted:8.0f}  "
            f"measured {generated / mean:8.0f}"
        )
        if peak is not None:
            expected = float(table.memory.peak[0, 0])
            print(
                f"  peak memory, GB    predicted {expected / 1e9:8.2f}  "
                f"measured {peak / 1e9:8.2f}  ratio {expected / peak:.2f}"
            )


if __name__ == "__main__":
    main()
