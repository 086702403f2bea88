"""How noisy the gradient of an update is, and what of it comes from where."""

from dataclasses import dataclass
from typing import Any

# Estimates are differences of squared norms, which float32 has to about seven digits.
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class GradientNoise:
    """The noise of an update's gradient, a mean over `updates` measured since the last record.

    Of the gradient that is averaged over rollouts, before it is clipped. Estimates without bias,
    which may be negative; None: the batches do not tell. A group's baseline couples its rollouts,
    so both variances are those at this `num_generations` (n): with B problems a step the
    gradient's variance is between_problems / B + within_problems / (n B).
    """

    updates: int
    num_generations: int
    gradient: float | None = None
    """|G|^2: of the expected gradient."""
    between_problems: float | None = None
    """Trace of the covariance of a problem's expected gradient."""
    within_problems: float | None = None
    """Trace of the covariance of one rollout's gradient about its problem's."""

    @property
    def rollouts(self) -> float | None:
        """Noise scale tr(Sigma) / |G|^2 in rollouts (arXiv 1812.06162, equation 2.9): at so many a
        step, n a problem, noise and gradient are of one size. None where either is not positive, or
        the gradient is below the rounding of float32."""
        if self.gradient is None or self.between_problems is None or self.within_problems is None:
            return None
        trace = self.within_problems + self.num_generations * self.between_problems
        return noise_ratio(trace, self.gradient)

    @property
    def problems(self) -> float | None:
        """The noise scale in problems of n rollouts."""
        return None if self.rollouts is None else self.rollouts / self.num_generations

    def to_json(self) -> dict[str, Any]:
        """What a file holds: the noise scale beside what it is of."""
        scales = {"rollouts": self.rollouts, "problems": self.problems}
        return {k: v for k, v in {**vars(self), **scales}.items() if v is not None}


def noise_ratio(above: float, below: float) -> float | None:
    """Ratio of two estimates; None where one is not positive, or `below` is lost in rounding."""
    return above / below if above > 0 and below > _ROUNDING * above else None
