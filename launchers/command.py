"""Runs as jobs of any scheduler that has commands to make, look at and end a job."""

import re
import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from isosweep.commands import Answer, ask
from isosweep.config.command import PLACEHOLDERS, CommandConfig, placeholders
from isosweep.config.executed import EXECUTED, require_own
from isosweep.config.launcher import LauncherConfig
from isosweep.errors import PreflightError, SettingError
from isosweep.files import write_text
from isosweep.launchers.launcher import Launcher, Observed, Order, Refused
from isosweep.launchers.templates import Templates, job_name, template_file
from isosweep.plan.cells import PlannedRun
from isosweep.store.state import view_run
from isosweep.store.submissions import Job, LauncherName, SubmissionState

# Commands at once: clients of a scheduler take a second of CPU each (`ray job status`), and its
# server has others to serve.
_AT_ONCE = 8
# Ids in one command: Linux takes 128 KiB in one argument (MAX_ARG_STRLEN, execve(2)), and the
# longest ids, Kubernetes' names, have 63 characters.
_IDS_AT_ONCE = 1000
# What a scheduler's word means, by the setting that lists it.
_MEANINGS = {
    "pending": Observed(status="pending"),
    "running": Observed(status="running"),
    "gone": Observed(status="gone"),
    "failed": Observed(status="gone", outcome="failed"),
    "cancelled": Observed(status="gone", outcome="cancelled"),
}


def require_commands(config: CommandConfig, nodes: int = 1) -> None:
    """Raise SettingError for a command that is not given, or asks for no more than one of a run's
    `nodes`; PreflightError for what is not here."""
    config.require()
    missing = []
    for name in ("submit", "poll", "cancel"):
        program = shlex.split(getattr(config, name), posix=True)[0]
        if ask(f"command -v {shlex.quote(program)}", config.timeout_s).status != 0:
            remedy = f"install it, or run where it is; launcher.command.{name} is to execute it"
            missing.append((f"the command {program}", remedy))
    if config.file is not None:
        missing += _missing_in_file(config)
    if missing:
        raise PreflightError(list(dict.fromkeys(missing)))
    if nodes > 1 and config.file is not None:
        text = template_file(config.file).read_text()
        if not config.asks_for_nodes(text):
            rule = f"asks for one node, and hardware.nodes_per_run={nodes}: no {{nodes}} in it"
            nearest = "launcher=slurm, kueue, pbs or skypilot, or a file that asks for them"
            raise SettingError("launcher.command.file", config.file, rule, nearest)


def _missing_in_file(config: CommandConfig) -> list[tuple[str, str]]:
    path = template_file(config.file or "")
    known = {*PLACEHOLDERS, *config.values}.difference(("id", "ids"))
    try:
        unknown = sorted(set(placeholders(path.read_text())) - known)
    except (OSError, UnicodeDecodeError) as error:
        return [(f"{path}, the file of launcher.command.file ({error})", "name one that is there")]
    what = [f"a value for {{{name}}} in {path}" for name in unknown]
    return [(each, f"one of {', '.join(sorted(known))}, or add it to values") for each in what]


class CommandLauncher(Launcher):
    """Makes, observes and ends jobs by the commands of `launcher.command`."""

    name: LauncherName = "command"
    detaches = True

    def __init__(self, launcher: LauncherConfig, gpus: int, *, nodes: int = 1) -> None:
        """`gpus`: those of a run on each of its `nodes`. Raises as `require_own` and
        `require_commands` do."""
        self._config = launcher.command
        settings = (name for name, by in EXECUTED.items() if by == "command")
        require_own({name: getattr(self._config, name.rpartition(".")[2]) for name in settings})
        require_commands(self._config, nodes)
        self.places = launcher.max_parallel is not None
        self.poll_s = self._config.poll_s
        asked = gpus if self._config.gpus is None else self._config.gpus
        self._templates = Templates(config=self._config, gpus=asked, nodes=nodes)
        self._asked: dict[str, float] = {}

    def batches(self, runs: Sequence[PlannedRun]) -> list[list[int]]:
        """All at once: they are handed over side by side, each by a command of its own."""
        return [list(range(len(runs)))] if runs else []

    def submit(self, orders: Sequence[Order]) -> list[Job | Refused]:
        """As the protocol says; after a refusal that may pass, the rest of `orders` is kept too."""
        refusals: list[str] = []

        def one(order: Order) -> Job | Refused:
            if refusals:
                return Refused(reason=refusals[0], passing=True)
            made = self._submit(order)
            if isinstance(made, Refused) and made.passing:
                refusals.append(made.reason)
            return made

        return _side_by_side(one, orders)

    def observe(self, submissions: Sequence[SubmissionState]) -> list[Observed]:
        """As the protocol says; within about twice `timeout_s`, and twice more where ids are
        looked for. Who is not asked in that time is unknown, and the first to be asked next."""
        known = self._with_ids(submissions)
        ids = [known_id for known_id in known if isinstance(known_id, str)]
        answers = self._ask_each(ids) if self._config.asks_each else self._ask_all(ids)
        self._asked = {job_id: self._asked[job_id] for job_id in ids if job_id in self._asked}
        found = (
            self._named(state, answers[each], each) if isinstance(each, str) else each
            for state, each in zip(submissions, known, strict=True)
        )
        return list(found)

    def stop(self, submissions: Sequence[SubmissionState], *, kill: bool = False) -> str | None:
        """End their jobs; whether that begins with a signal is the scheduler's matter, so that
        `kill` makes no difference."""

        def one(job_id: str | Observed) -> str | None:
            if isinstance(job_id, Observed):
                return job_id.reason if job_id.status == "unknown" else None
            answer = self._ask(self._config.cancel, {"id": job_id})
            gone = answer.status == 0 or self._is_unknown(answer, job_id)
            return None if gone else f"{job_id}: {answer.words}"

        wrong = [each for each in _side_by_side(one, self._with_ids(submissions)) if each]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return f"{wrong[0]}{more}" if wrong else None

    def _submit(self, order: Order) -> Job | Refused:
        config, templates = self._config, self._templates
        templates.write(order.submission)
        answer = self._ask(config.submit, templates.of(order.submission))
        said = f"{answer.output}{answer.errors}"
        write_text(order.logs / "submit.log", said, below=order.submission.run.root)
        own = templates.own_id(order.submission)
        if answer.status != 0:
            final = answer.status in config.final_exits
            # Whether a job of our own id was made is asked by that id, before another is made.
            unknown = not final and (answer.status is None or own is not None)
            return Refused(reason=answer.words, passing=not final, unknown=unknown)
        if own is not None:
            return Job(job_id=own)
        match = re.search(config.submit_id, answer.output.strip())
        if match is None:
            return Refused(reason=f"no id in its words: {answer.words}", passing=True, unknown=True)
        return Job(job_id=match[1])

    def _with_ids(self, submissions: Sequence[SubmissionState]) -> list[str | Observed]:
        """The id of each; for one that has none, what is known of it all the same."""
        return _side_by_side(self._id, submissions)

    def _id(self, state: SubmissionState) -> str | Observed:
        own = self._templates.own_id(state.submission)
        # One with a process was written by a worker, which does not know what the scheduler does.
        said = state.job.job_id if state.job and state.job.process is None else None
        if own or said:
            return own or said or ""
        if self._config.find:
            answer = self._ask(self._config.find, self._templates.of(state.submission))
            words = answer.output.split()
            if answer.status == 0 and words:
                return words[-1]
            if answer.status != 0 and not self._is_unknown(answer, job_name(state.submission)):
                return Observed(status="unknown", reason=answer.words)
        current = view_run(state.submission.run).current
        if current is not None and current.status == "running":
            return Observed(status="running", reason=f"on {current.host}, under an unknown id")
        return Observed(status="gone", reason="its submission made no job that can be found")

    def _ask(self, command: str, values: dict[str, Any]) -> Answer:
        return ask(self._templates.command(command, values), self._config.timeout_s)

    def _ask_each(self, ids: list[str]) -> dict[str, Observed]:
        deadline = time.monotonic() + 2 * self._config.timeout_s

        def one(job_id: str) -> Observed:
            if time.monotonic() > deadline:
                return Observed(status="unknown", reason="not asked: others took too long")
            self._asked[job_id] = time.monotonic()
            answer = self._ask(self._config.poll, {"id": job_id})
            word = f"exit {answer.status}"
            if self._status(word) is None:
                match = re.search(self._config.state, answer.output.strip())
                word = match[1] if match and answer.status == 0 else ""
            return self._observed(word, answer, job_id)

        longest_ago = sorted(ids, key=lambda job_id: self._asked.get(job_id, -1.0))
        return dict(zip(longest_ago, _side_by_side(one, longest_ago), strict=True))

    def _ask_all(self, ids: list[str]) -> dict[str, Observed]:
        observed: dict[str, Observed] = {}
        # A command that takes no ids tells of all jobs at once.
        size = _IDS_AT_ONCE if "ids" in placeholders(self._config.poll) else len(ids)
        for start in range(0, len(ids), max(1, size)):
            asked = ids[start : start + size]
            answer = self._ask(self._config.poll, {"ids": asked})
            words = {match[1]: match[2] for match in re.finditer(self._config.state, answer.output)}
            observed |= {i: self._observed(words.get(i, ""), answer, i) for i in asked}
        return observed

    def _observed(self, word: str, answer: Answer, job_id: str) -> Observed:
        status = self._status(word)
        if status is not None:
            return status
        if word:
            reason = f"{word}, which is in none of launcher.command.pending, running, gone, failed"
            return Observed(status="unknown", reason=f"{reason}, cancelled")
        if self._is_unknown(answer, job_id):
            return Observed(status="gone", reason="its scheduler does not know it any more")
        return Observed(status="unknown", reason=answer.words)

    def _status(self, word: str) -> Observed | None:
        means = (each for name, each in _MEANINGS.items() if word in getattr(self._config, name))
        found = next(means, None)
        return found and replace(found, reason=word)

    def _is_unknown(self, answer: Answer, job_id: str) -> bool:
        if not self._config.unknown_id or answer.status is None:
            return False
        pattern = self._config.unknown_id.replace("{id}", re.escape(job_id))
        return re.search(pattern, f"{answer.output}\n{answer.errors}") is not None

    def _named(self, state: SubmissionState, observed: Observed, job_id: str) -> Observed:
        if state.job is not None or observed.status == "unknown":
            return observed
        return replace(observed, job=Job(job_id=job_id))


def _side_by_side(one: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(one, items))
