"""An account of memory that is not the planner's: live storages."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from isosweep.config.base import replaced
from isosweep.config.hardware import HardwareConfig, Precision
from isosweep.config.model import Architecture, architecture_from_config
from isosweep.config.recipe import RecipeConfig
from isosweep.plan.spec import run_spec
from tests.conftest import make_config
from tests.models.families import configuration, language_model

# Scaled down: a vocabulary that is large for the width, as those of real models are.
SIZES: dict[str, Any] = {
    "vocab_size": 3000,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "attn_implementation": "sdpa",
}
PROMPT = 24


class LiveBytes(TorchDispatchMode):  # type: ignore[misc]
    """Bytes of the storages made while it is entered that are alive, and the most of them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.counting = True
        self._alive: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {t.untyped_storage()._cdata for t in tree_iter((args, kwargs)) if _tensor(t)}
        out = func(*args, **kwargs)
        for storage in [t.untyped_storage() for t in tree_iter(out) if _tensor(t)]:
            key, size = storage._cdata, storage.nbytes()
            if self.counting and key not in given and key not in self._alive:
                self.now += size
                self._alive[key] = weakref.ref(storage, partial(self._freed, key, size))
        self.most = max(self.most, self.now)
        return out

    def _freed(self, key: int, size: int, reference: Any) -> None:
        self.now -= size
        del self._alive[key]


def _tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


@contextmanager
def as_with_triton(live: LiveBytes | None = None) -> Iterator[None]:
    """TRL's fused head takes its path for GPUs: completions alone, tiles folded in place."""
    from trl.kernels import chunked_logprob as kernels
    from trl.trainer import utils

    from isosweep.training.changed import changed
    from isosweep.training.trainer import SweepTrainer

    def unseen(function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if live is not None:
                live.counting = False
            try:
                return function(*args, **options)
            finally:
                if live is not None:
                    live.counting = True

        return call

    class Launched:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __getitem__(self, grid: Any) -> Any:
            return unseen(self.function)

    class Triton:
        cdiv = staticmethod(lambda a, b: -(-a // b))

    plain = {name: getattr(kernels, name) for name in ("_use_triton", "_addmm_fp32")}
    folds = {name: getattr(kernels, name) for name in ("_forward_kernel", "_backward_kernel")}
    kernels._use_triton = utils._use_triton = lambda device: True
    kernels._forward_kernel = Launched(kernels._forward_tile)
    kernels._backward_kernel = Launched(kernels._backward_tile)
    # A GPU multiplies bfloat16 into float32 without copies.
    kernels._addmm_fp32 = unseen(plain["_addmm_fp32"])
    kernels.triton = Triton
    # Tiles have all their columns there.
    whole = property(lambda trainer: utils._CHUNKED_LOGPROB_CHUNK_SIZE)
    try:
        with changed(SweepTrainer, _logits_per_token=whole):
            yield
    finally:
        utils._use_triton = plain["_use_triton"]
        for name, value in (plain | folds).items():
            setattr(kernels, name, value)


class Scaled:
    """A trainer of a scaled-down model in the precision of a GPU's run, and what was planned."""

    def __init__(
        self,
        directory: Path,
        family: str,
        *overrides: str,
        weights: Precision = "float32",
        computed: Precision = "bfloat16",
    ) -> None:
        from tests.training.builders import trainer_of

        config = make_config("task.num_eval_problems=32", *overrides)
        torch.manual_seed(0)
        made = configuration(family, **SIZES)
        self.model = language_model(made)
        self.model.to(getattr(torch, weights))
        self.arch: Architecture = architecture_from_config(made.to_dict())
        self.recipe: RecipeConfig = config.recipe
        shown = weights if config.recipe.lora_rank is None else "float32"
        self.hardware: HardwareConfig = replaced(
            config.hardware, device="cuda", dtype=computed, weights_dtype=shown
        )
        spec = run_spec(config, num_generations=4, problems_per_batch=4, seed=0, micro_batch=4)
        self.trainer = trainer_of(spec, directory, self.model)
        self.policy = self.trainer.model
        if computed == "bfloat16":
            cast = torch.autocast("cpu", torch.bfloat16)
            self.trainer.accelerator.autocast = lambda: cast
        self.trainer.current_gradient_accumulation_steps = 1
        self.policy.train()
        if config.hardware.gradient_checkpointing:
            options = self.trainer.args.gradient_checkpointing_kwargs
            self.policy.gradient_checkpointing_enable(options)

    def loss(self, rows: int, completion: int) -> Any:
        """TRL's loss of a micro-batch, of which the first prompt and last answer are padded."""
        generator = torch.Generator().manual_seed(0)

        def tokens(count: int) -> Any:
            return torch.randint(1, SIZES["vocab_size"], (rows, count), generator=generator)

        batch = {
            "prompt_ids": tokens(PROMPT),
            "completion_ids": tokens(completion),
            "prompt_mask": torch.ones(rows, PROMPT, dtype=torch.long),
            "completion_mask": torch.ones(rows, completion, dtype=torch.long),
            "advantages": torch.randn(rows, generator=generator),
            "ref_per_token_logps": torch.zeros(rows, completion),
            "num_items_in_batch": torch.tensor(float(rows * completion)),
        }
        batch["prompt_mask"][0, :2] = 0
        batch["completion_mask"][-1, -1] = 0
        return self.trainer.compute_loss(self.policy, batch)

    def most(self, rows: int, completion: int, *, triton: bool = True) -> int:
        """Most bytes alive in a forward and backward pass, beside weights and gradients."""
        live = LiveBytes()
        with as_with_triton(live) if triton else nullcontext():
            self.loss(rows, completion).backward()
            live.now = live.most = 0
            live._alive.clear()
            with live:
                self.loss(rows, completion).backward()
        return live.most

    def generated(self, rows: int, prompt: int, completion: int) -> int:
        """Most bytes alive while transformers samples `completion` tokens for each of `rows`."""
        mask = torch.ones(rows, prompt, dtype=torch.long)
        mask[0, 0] = 0
        settings = transformers.GenerationConfig(
            max_new_tokens=completion, do_sample=True, top_k=0, top_p=1.0, pad_token_id=0
        )
        live = LiveBytes()
        self.policy.eval()
        with torch.no_grad(), live:
            ids = torch.randint(1, SIZES["vocab_size"], (rows, prompt))
            self.policy.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
        return live.most
