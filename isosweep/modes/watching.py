"""Who follows which of a command's sweeps: this process, or one that it waits for."""

import time
from dataclasses import replace

from rich.console import Console

from isosweep.modes.queues import Sweep
from isosweep.modes.status import who
from isosweep.modes.terminal import say, typed
from isosweep.plan.standing import run_standing
from isosweep.plan.tally import Standing
from isosweep.store.drivers import Claim, Driver, drive, living_driver, newest_driver
from isosweep.store.state import view_run

# Between two looks at who follows a sweep.
_LOOK_S = 2.0
# Exit statuses of a driver that left nothing to do: all runs are done, or given up for good.
_COMPLETE = (0, 1)


class Watching:
    """Sweeps that are followed from here (`own`), and those that another process follows."""

    def __init__(self, sweeps: list[Sweep], console: Console) -> None:
        self.own: dict[str, tuple[Sweep, Claim]] = {}
        self._others: dict[str, tuple[Sweep, Driver | None]] = {s.name: (s, None) for s in sweeps}
        # Of sweeps that another process follows: what had been given up when this one came.
        self._given_up: dict[str, dict[str, int]] = {}
        self._console = console
        self._next_look = 0.0

    @property
    def others(self) -> list[Sweep]:
        """The sweeps that another process follows."""
        return [sweep for sweep, _ in self._others.values()]

    @property
    def sweeps(self) -> list[Sweep]:
        """All sweeps that are left."""
        return [*(sweep for sweep, _ in self.own.values()), *self.others]

    @property
    def due(self) -> bool:
        """Whether it is time for another look."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _LOOK_S
        return True

    def require_there(self) -> None:
        """Raise OSError where a sweep's files cannot be seen at present."""
        for sweep in self.sweeps:
            sweep.paths.runs.stat()
            sweep.paths.plan.stat()

    def _print(self, line: str) -> None:
        say(self._console, line)

    def claim(self) -> tuple[list[Sweep], list[tuple[Sweep, Driver]]]:
        """Claim what nobody follows: those, and sweeps that another process has completed.

        What had been cancelled, or had failed for good, before this command began is what the
        command is to train: a sweep whose driver leaves that undone is claimed, but for what that
        driver has given up since.
        """
        claimed: list[Sweep] = []
        complete: list[tuple[Sweep, Driver]] = []
        for name in list(self._others):
            try:
                self._look(name, claimed, complete)
            except OSError:
                # What is claimed by now is to be followed; the others are looked at again.
                if not (claimed or complete):
                    raise
                break
        return claimed, complete

    def _look(self, name: str, claimed: list[Sweep], complete: list[tuple[Sweep, Driver]]) -> None:
        sweep, watched = self._others[name]
        drivers = sweep.paths.drivers
        if watched is not None and living_driver(drivers) is None:
            last = newest_driver(drivers)
            if last is not None and last.left in _COMPLETE:
                before = self._given_up[name]
                now = _given_up(sweep)
                wanted = {run_id for run_id in before if now.get(run_id) == before[run_id]}
                if not wanted:
                    complete.append((sweep, last))
                    del self._others[name]
                    return
                left = {r: why for r, why in last.failed.items() if r not in wanted}
                sweep = replace(sweep, left={**sweep.left, **left})
        takeover = sweep.study.config.takeover and watched is None
        answer = drive(drivers, takeover=takeover)
        if isinstance(answer, Driver):
            if watched is None:
                self._given_up[name] = _given_up(sweep)
            self._say_who(sweep, answer, watched)
            self._others[name] = (sweep, answer)
            return
        if watched is not None:
            self._print(f"{name}: {who(watched)} no longer follows it; this process does now")
        del self._others[name]
        self.own[name] = (sweep, answer)
        claimed.append(sweep)

    def _say_who(self, sweep: Sweep, driver: Driver, before: Driver | None) -> None:
        if before is not None and before.number == driver.number:
            return
        again = f"mode=resume {typed('sweep_dir', sweep.paths.root)} takeover=true takes it over"
        self._print(
            f"{sweep.name} is followed by {who(driver)}; this process only watches. {again}"
        )

    def overtaken(self) -> list[Sweep]:
        """Sweeps that another process has taken over; they are no longer among `own`."""
        lost = []
        for name, (sweep, claim) in list(self.own.items()):
            by = claim.overtaken_by()
            if by is not None:
                self._print(f"{name}: taken over by {who(by)}; its runs go on")
                claim.release(0)
                del self.own[name]
                lost.append(sweep)
        return lost

    def release(self, status: int) -> None:
        """Leave all sweeps with an exit status."""
        for _, claim in self.own.values():
            claim.release(status)
        self.own.clear()


def _given_up(sweep: Sweep) -> dict[str, int]:
    """The runs that are cancelled, or are to be, and those that failed; each with the number of its
    newest submission."""
    stop, found = sweep.study.config.health.stop, {}
    for run in sweep.study.plan.runs:
        view = view_run(sweep.paths.run(run.run_id))
        state = view.submission
        if state is None or run.run_id in sweep.left:
            continue
        where = run_standing(run, view, sweep.study.plan.budget_unit, stop)
        asked = state.cancel is not None and not where.ended
        if asked or where in (Standing.CANCELLED, Standing.FAILED):
            found[run.run_id] = state.submission.number
    return found
