"""The jobs of a sweep's runs, as their schedulers know them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from isosweep.config.sweep import SweepConfig
from isosweep.errors import IsosweepError
from isosweep.launchers.launcher import JobState, Launcher, Observed
from isosweep.launchers.liveness import Liveness
from isosweep.store.attempts import Attempt


class Jobs:
    """Asks each attempt's own launcher: runs that sweeps share may come from several."""

    def __init__(self, config: SweepConfig) -> None:
        self._config = config
        self._made: dict[str, Launcher | str] = {}
        self._liveness = Liveness()

    def observe(self, attempts: Sequence[Attempt]) -> list[JobState]:
        """What is known of their jobs, by one question to each scheduler."""
        found: dict[int, Observed] = {}
        for name, places in _by_launcher(attempts).items():
            chosen = [attempts[place] for place in places]
            if name == "none":
                answers = [Observed(status="ended", reason="it never had a job")] * len(places)
            elif isinstance(launcher := self._launcher(name), str):
                answers = [Observed(status="unknown", reason=launcher)] * len(places)
            else:
                answers = launcher.observe(chosen)
            found.update(zip(places, answers, strict=True))
        return self._liveness.judge(attempts, [found[place] for place in range(len(attempts))])

    def _launcher(self, name: Any) -> Launcher | str:
        """The launcher called `name`, or why there is none here."""
        from isosweep.launchers.make import make_launcher

        if name not in self._made:
            own = self._config.launcher
            config = self._config
            try:
                if name != own.name:
                    config = replace(config, launcher=replace(own, name=name))
                self._made[name] = make_launcher(config)
            except IsosweepError as error:
                self._made[name] = str(error)
        return self._made[name]

    def stop(self, attempts: Sequence[Attempt], *, kill: bool = False) -> str | None:
        """Ask their jobs to leave, or end them (`kill`); what went wrong, None if nothing."""
        errors = []
        for name, places in _by_launcher(attempts).items():
            if name == "none":
                continue
            launcher, chosen = self._launcher(name), [attempts[place] for place in places]
            errors.append(
                launcher if isinstance(launcher, str) else launcher.stop(chosen, kill=kill)
            )
        return "; ".join(error for error in errors if error) or None


def _by_launcher(attempts: Sequence[Attempt]) -> dict[str, list[int]]:
    """Places in `attempts`, by the name of the launcher."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, attempt in enumerate(attempts):
        places[attempt.launcher].append(place)
    return places
