"""The time of a step where a generator works beside its trainer, each on devices of its own.

One generation is sampled while another is trained on, and the step ends when both have: budgets and
records count what was sampled. So a step takes max(G, L): seconds `G` of the generation, and `L` of
learning. `G` varies with the longest answer; taken as normal, its mean larger value is (C. E.
Clark, Operations Research 9, 145, 1961), with z = (L - mean(G)) / sd(G) and the normal distribution
Phi and density phi:

    step = L Phi(z) + mean(G) Phi(-z) + sd(G) phi(z)

Not modelled: what a queue would smooth in which several generations wait, each with the weights of
its own step; answers that begin before all of the generation before have ended.
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
