"""What a search asks for: steps, each of which trains a run up to one of its milestones."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Step:
    """Train `run_id` up to `milestone` (in the plan's budget unit).

    `compute`: what that adds to what the run has spent or is asked to spend, in the same unit;
    `value`: expected value (reward: summed drop of loss, and of entropy, weighted); `why`: one
    clause in plain English.
    """

    run_id: str
    milestone: float
    compute: float
    value: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to train next, best value per compute first; none of `steps`: the search stops.

    `considered`: the best few that were considered; `stop`: the reason, in words, without steps.
    `chances` of each verdict, and the `loss` of reward expected at the worst budget, are those
    believed when it was decided; None where nothing was believed yet.
    """

    steps: tuple[Step, ...]
    considered: tuple[Step, ...]
    stop: str | None
    chances: dict[str, float] | None = None
    loss: float | None = None
