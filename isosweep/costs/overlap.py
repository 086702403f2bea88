"""The time of a step where a generator works beside its trainer, each on devices of its own.

One generation is sampled while another is trained on, and the step ends when both have: budgets and
records count what was sampled. So a step takes max(G, L): seconds `G` of the generation, and `L` of
learning. `G` varies with the longest answer; taken as normal, its mean larger value is (C. E.
Clark, Operations Research 9, 145, 1961), with z = (L - mean(G)) / sd(G) and the normal distribution
Phi and density phi:

    step = L Phi(z) + mean(G) Phi(-z) + sd(G) phi(z)

Not modelled: what a queue would smooth in which several generations wait, each with the weights of
its own step (`steps_taken`); answers that begin before all of the generation before have ended.
"""

import math

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
_erf = np.vectorize(math.erf, otypes=[float])


def paced(generating: Seconds, learning: Seconds, spread: Seconds) -> Seconds:
    """Mean seconds of a step: at least the larger of both means, at most their sum. (batches,)

    `spread`: standard deviation of `generating`, in seconds.
    """
    deviation = np.maximum(spread, 1e-9 * generating)
    apart = (learning - generating) / deviation
    below = (1 + _erf(apart / math.sqrt(2))) / 2
    density = np.exp(-(apart**2) / 2) / math.sqrt(2 * math.pi)
    seconds: Seconds = learning * below + generating * (1 - below) + deviation * density
    return np.minimum(seconds, generating + learning)


def steps_taken(generating: Seconds, learning: float, lag: int) -> float:
    """Mean seconds of a step if `lag` generations may wait, from the seconds of each: (steps,)

    Generation s takes the weights of step s, and step s + lag trains on it. Given: the ends of
    generations and steps,

        sampled[s] = max(sampled[s - 1], trained[s - 1]) + generating[s]
        trained[s] = max(trained[s - 1], sampled[s - lag]) + learning
    """
    sampled = trained = 0.0
    ends = [0.0] * lag
    for seconds in generating:
        sampled = max(sampled, trained) + float(seconds)
        ends.append(sampled)
        trained = max(trained, ends[-1 - lag]) + learning
    return trained / len(generating)
