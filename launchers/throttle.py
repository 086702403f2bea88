"""How many tasks of each job array run at once, so that together they keep `max_parallel`."""

import math
from collections.abc import Collection, Mapping, Sequence


class Throttle:
    """Slurm throttles an array by itself (`%K`), and knows of no limit on several: arrays that fit
    share the places by the work in them, and those that do not begin after all before them."""

    def __init__(self, most: int | None) -> None:
        """`most`: runs at once; None: as many as Slurm starts."""
        self._most = most
        self._live: dict[str, int] = {}
        # Of arrays that have fewer places than they could use: how many that is.
        self._whole: dict[str, int] = {}

    @property
    def limited(self) -> bool:
        """Whether there is a limit to keep."""
        return self._most is not None

    def plan(self, work: Sequence[float]) -> list[int]:
        """Places of arrays to come with so much `work`; 0: it has to come after those before."""
        room = self._room
        if not work:
            return []
        fitting = work[: max(0, room)]
        return (shares(fitting, room) if fitting else []) + [0] * (len(work) - len(fitting))

    def place(self, planned: int, tasks: int) -> tuple[int, tuple[str, ...]]:
        """Tasks at once of an array of `tasks`, and the arrays that have to end before it."""
        if self._most is None:
            return tasks, ()
        return min(planned or self._most, tasks), () if planned else tuple(self._live)

    @property
    def _room(self) -> int:
        return 0 if self._most is None else self._most - sum(self._live.values())

    def lowered(self, wanted: int) -> dict[str, int]:
        """Arrays that are to have fewer tasks at once, and how many, for `wanted` runs to have
        places beside them; each keeps one. Who has them changed says so to `changed`."""
        missing = 0 if self._most is None else wanted - max(0, self._room)
        fewer: dict[str, int] = {}
        for array, parallel in sorted(self._live.items(), key=lambda item: -item[1]):
            if (given := min(parallel - 1, missing)) > 0:
                fewer[array] = parallel - given
                missing -= given
        return fewer

    def raised(self) -> dict[str, int]:
        """Arrays that may have more places than were left for them, and how many then."""
        room, more = self._room, {}
        for array, whole in self._whole.items():
            if (given := min(whole - self._live[array], room)) > 0:
                more[array] = self._live[array] + given
                room -= given
        return more

    def changed(self, array: str, parallel: int) -> None:
        """`array` has so many tasks at once now."""
        self._whole.setdefault(array, self._live[array])
        self._live[array] = parallel

    def submitted(self, array: str, parallel: int, tasks: int) -> None:
        """`array` was submitted with `tasks`, so many of them at once."""
        self._live[array] = parallel
        if self._most is not None and parallel < min(tasks, self._most):
            self._whole[array] = min(tasks, self._most)

    def seen(self, followed: Collection[str], tasks: Mapping[str, int]) -> None:
        """`tasks`: how many each array has that are not over, those of `followed` among them,
        whoever submitted them."""
        for array in followed if self._most is not None else ():
            self._live.setdefault(array, self._most or 0)
        known, self._live = self._live, {}
        for array, parallel in known.items():
            left, whole = tasks.get(array, 0), self._whole.pop(array, 0)
            if left:
                self._live[array] = min(parallel, left)
            if left and whole:
                self._whole[array] = min(whole, left)


def shares(work: Sequence[float], places: int) -> list[int]:
    """`places` shared out by `work`, one or more each; there are as many places as parts."""
    whole = sum(work)
    wanted = [part / whole * places for part in work]
    given = [max(1, math.floor(share)) for share in wanted]
    # What the floors leave goes where most is missing; what the ones take, from where most is.
    while sum(given) < places:
        given[max(range(len(given)), key=lambda i: wanted[i] - given[i])] += 1
    while sum(given) > places:
        given[max(range(len(given)), key=lambda i: (given[i] > 1, given[i] - wanted[i]))] -= 1
    return given
