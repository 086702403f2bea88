"""Sampling by transformers, with a model of this process.

Of what `model.generate` does this is left: logits are divided by a temperature and drawn from,
until an end or the limit. Added is that equal prompts can be read once, and that answers can be
drawn by numbers of their own, so that no answer depends on what is sampled beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, TopPLogitsWarper
from transformers.integrations.fsdp import is_fsdp_managed_module

from isosweep.training.seeds import Seeds

# A tokenizer and a language model of transformers.
Tokenizer = Any
Policy = Any
# Tokens of completions, and the sampler's log-probabilities of them where it gives any.
Completions = tuple[list[list[int]], list[list[float | None]] | None]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How completions are sampled: until one of the tokens `ends`, or `limit` tokens.

    `shared`: equal prompts are read once, and their keys and values copied. `padding`: the token
    that rows are filled up with.
    """

    limit: int
    temperature: float
    top_p: float = 1.0
    ends: Sequence[int]
    padding: int
    shared: bool = False

    def sample(
        self, model: Policy, prompts: Sequence[Sequence[int]], seeds: Seeds | None = None
    ) -> list[list[int]]:
        """A completion of each of `prompts`, up to and with its end.

        `seeds` decide its tokens: each is the first at which the cumulated probability exceeds
        the next number that follows from its seed. Without them tokens are drawn as by `generate`:
        from the same logits, with the same random numbers.
        """
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return self._sampled(model, prompts, seeds)
        finally:
            model.train(training)

    def _sampled(
        self, model: Policy, prompts: Sequence[Sequence[int]], seeds: Seeds | None
    ) -> list[list[int]]:
        reading = self._read(model, prompts)
        count, device = len(prompts), model.device
        stops = torch.tensor(sorted(self.ends), device=device)
        tokens = torch.full((count, self.limit), self.padding, device=device)
        rows, going = (torch.arange(count, device=device), torch.ones_like(tokens[:, 0]))
        for at in range(self.limit):
            logits = reading.logits.float()
            if self.temperature != 1.0:
                logits /= self.temperature
            if self.top_p < 1.0:
                logits = TopPLogitsWarper(self.top_p)(None, logits)
            probabilities = torch.softmax(logits, dim=-1)
            if seeds is None:
                drawn = torch.multinomial(probabilities, num_samples=1).squeeze(1)
            else:
                drawn = _inverse(probabilities, _uniform(seeds, at))
            drawn = drawn * going + self.padding * (1 - going)
            tokens[rows, at] = drawn
            going = going & ~torch.isin(drawn, stops)
            left = int(going.sum())
            if at + 1 == self.limit or not _anyones(left > 0, model):
                break
            # What has ended is dropped, unless its random numbers are to be drawn as well.
            if seeds is not None and 0 < 2 * left <= len(going):
                kept = going.nonzero().flatten()
                rows, drawn, going = rows[kept], drawn[kept], going[kept]
                seeds = seeds[kept.cpu().numpy()]
                reading.keep(kept)
            reading.read(drawn)
        ended = torch.isin(tokens, stops)
        lengths = torch.where(ended.any(1), ended.int().argmax(1) + 1, at + 1).tolist()
        return [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)]

    def _read(self, model: Policy, prompts: Sequence[Sequence[int]]) -> "_Reading":
        """What the model has read of each of `prompts`: all of it."""
        texts = [tuple(prompt) for prompt in prompts]
        places = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        if not self.shared or len(places) == len(texts):
            return _Reading(model, texts, self.padding)
        reading = _Reading(model, list(places), self.padding)
        reading.keep(torch.tensor([places[text] for text in texts], device=model.device))
        return reading


class _Reading:
    """Rows that a model is reading; `logits`: of what comes next (rows, words)."""

    logits: Any

    def __init__(self, model: Policy, texts: Sequence[Sequence[int]], padding: int) -> None:
        self._model = model
        self._cache = DynamicCache(config=model.config.get_text_config())
        width, device = max(map(len, texts)), model.device
        filled = [[padding] * (width - len(text)) + list(text) for text in texts]
        # Without padding a model makes its own, and reads faster.
        self._mask = self._positions = None
        if width > min(map(len, texts)):
            starts = torch.tensor([[width - len(text)] for text in texts], device=device)
            self._mask = (torch.arange(width, device=device) >= starts).long()
            # Those of padding as `generate` has them.
            self._positions = (self._mask.cumsum(1) - 1).masked_fill(self._mask == 0, 1)
        self._forward(torch.tensor(filled, device=device))

    def keep(self, rows: Any) -> None:
        """Go on with `rows`, which may come several times."""
        self.logits = self.logits[rows]
        self._cache.batch_select_indices(rows)
        if self._mask is not None and self._positions is not None:
            self._mask, self._positions = self._mask[rows], self._positions[rows]

    def read(self, tokens: Any) -> None:
        """Read one more token of each row: (rows,)."""
        if self._mask is not None and self._positions is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
            self._positions = self._positions[:, -1:] + 1
        self._forward(tokens[:, None])

    def _forward(self, ids: Any) -> None:
        given = {"attention_mask": self._mask, "position_ids": self._positions}
        padded = {} if self._mask is None else given
        out = self._model(
            input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1, **padded
        )
        self.logits = out.logits[:, -1]


def _anyones(own: bool, model: Policy) -> bool:
    """`own`, or another process's where all call the model together, each with parts of it."""
    if not is_fsdp_managed_module(model):
        return own
    flag = torch.tensor(float(own), device=model.device)
    torch.distributed.all_reduce(flag)
    return bool(flag)


def _uniform(seeds: Seeds, at: int) -> Any:
    """The number that follows from each seed at a place, from 0 to 1: (answers,) in float64.

    SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, doi 10.1145/2660193.2660195), whose state moves
    by a constant, so that any place can be asked for.
    """
    state = seeds + np.uint64((at + 1) * 0x9E3779B97F4A7C15 % 2**64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return torch.from_numpy(((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53)


def _inverse(probabilities: Any, uniforms: Any) -> Any:
    """The token at which the cumulated probability of a row exceeds its number: (rows,)."""
    # In float64: in float32 the sum over a vocabulary is off by more than a rare token's share.
    sums = probabilities.cumsum(-1, dtype=torch.float64)
    wanted = uniforms.to(sums.device)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, wanted, right=True).squeeze(1).clamp(max=sums.size(1) - 1)
