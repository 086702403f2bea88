"""Names of difficulties, and rewards by them."""

from collections.abc import Sequence

from isosweep.config.difficulty import DIFFICULTIES


def buckets_of(rate: float) -> tuple[str, ...]:
    """Names of the difficulties that a success rate before training falls into; they overlap."""
    return tuple(name for name, (low, high) in DIFFICULTIES.items() if low <= rate <= high)


def bucket_rewards(
    rates: Sequence[float | None], successes: Sequence[int], samples: int
) -> dict[str, float]:
    """avg@k of each difficulty that has problems: `rates`, `successes`: (problems,)."""
    by_name: dict[str, list[int]] = {}
    for rate, count in zip(rates, successes, strict=True):
        for name in buckets_of(rate) if rate is not None else ():
            by_name.setdefault(name, []).append(count)
    return {name: sum(counts) / (len(counts) * samples) for name, counts in by_name.items()}
