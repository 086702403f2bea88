"""What takes the place of the placeholders in the commands and files of `launcher=command`."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from isosweep.config.command import CommandConfig, fill
from isosweep.config.executed import vouched
from isosweep.config.hydra import config_directory
from isosweep.files import write_text
from isosweep.store.submissions import Submission

# Of a hash, so that names tell apart all that a cluster holds; what is before it is for readers,
# of which a Kubernetes name has room for this many.
_HASH, _READABLE = 10, 40
# By which each node of a job is told its number, of whatever starts a process on each, innermost
# first: Open MPI, MPICH and Intel MPI, Slurm, an Indexed Job of Kubernetes, SkyPilot, PBS.
_NODE_VARIABLES = (
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    *("JOB_COMPLETION_INDEX", "SKYPILOT_NODE_RANK", "PBS_NODENUM"),
)


def job_name(submission: Submission) -> str:
    """The submission's name: of a letter, digits and hyphens, 63 at most, and never used twice.

    That is what Kubernetes (RFC 1123), PBS, LSF and Ray all take.
    """
    made = f"{submission.run.root} {submission.number} {submission.batch} {submission.unix_time}"
    plain = re.sub(r"[^a-z0-9]+", "-", submission.run.run_id.lower()).strip("-")[-_READABLE:]
    digest = sha256(made.encode()).hexdigest()[:_HASH]
    return f"run-{plain.strip('-')}-{submission.number}-{digest}"


def template_file(name: str) -> Path:
    """The file that `launcher.command.file` means: one that is shipped, or a path."""
    shipped = config_directory() / "launcher" / "files" / name
    return shipped if shipped.is_file() else Path(name).absolute()


@dataclass(frozen=True, kw_only=True)
class Templates:
    """The commands of `config`, for jobs of `nodes` nodes with `gpus` GPUs each."""

    config: CommandConfig
    gpus: int
    nodes: int = 1

    def command(self, template: str, values: Mapping[str, Any]) -> str:
        """`template` with its placeholders, quoted for a shell. `values`: those of a job."""
        known = {**self._settings(), **values}
        quoted = {name: _quoted(value) for name, value in known.items()}
        # Parts of commands themselves, which may hold placeholders.
        quoted["options"] = fill(self.config.options, quoted)
        quoted["gpu_options"] = fill(self.config.gpu_options, quoted) if self.gpus else ""
        return fill(template, quoted)

    def of(self, submission: Submission) -> dict[str, Any]:
        """The values that a submission has."""
        logs = submission.run.submission_logs(submission.number)
        file = self.config.file
        return {
            "script": str(logs / "job.sh"),
            "submission": str(submission.run.submission(submission.number)),
            "name": job_name(submission),
            "run_id": submission.run.run_id,
            "run_dir": str(submission.run.root),
            "logs": str(logs),
            "file": str(logs / template_file(file).name) if file else "",
        }

    def own_id(self, submission: Submission) -> str | None:
        """The id that the submission's job is given, where that is ours to choose."""
        own = self.config.own_id
        return fill(own, self.of(submission)) if own else None

    def write(self, submission: Submission) -> None:
        """Write what the job executes, and the file that the scheduler is given.

        Raises OSError, as `files.write_text` does.
        """
        known = {**self._settings(), **self.of(submission)}
        below, script = submission.run.root, Path(known["script"])
        if self.nodes > 1 and self.config.each_node:
            job, script = script, script.with_name("node.sh")
            start = self.command(self.config.each_node, {**known, "script": str(script)})
            write_text(job, self._script(_quoted(job.with_suffix("")), start), below=below)
        write_text(script, self._of_node(known), below=below)
        if self.config.file is not None:
            document = {k: json.dumps(v, ensure_ascii=False) for k, v in known.items()}
            text = template_file(self.config.file).read_text()
            write_text(Path(known["file"]), fill(text, document), below=below)

    def _settings(self) -> dict[str, Any]:
        config = self.config
        return {
            "python": config.python or sys.executable,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "cpus": config.cpus,
            "mem_gb": config.mem_gb,
            "minutes": config.timeout_min,
            **config.values,
        }

    def _of_node(self, known: Mapping[str, Any]) -> str:
        """What each node of a job executes, wherever it is."""
        worker = _quoted([known["python"], "-P", "-m", "isosweep.training", known["submission"]])
        job = Path(known["logs"]) / "job"
        if self.nodes == 1:
            return self._script(_quoted(job), worker)
        number = ""
        for name in reversed(("ISOSWEEP_NODE", *_NODE_VARIABLES)):
            number = f"${{{name}:-{number}}}"
        place = (f"export ISOSWEEP_NODES={self.nodes}", f"export ISOSWEEP_NODE={number}")
        # As `store.paths.node_of_log` reads it.
        return self._script(f'{_quoted(job)}_"$ISOSWEEP_NODE"_log', worker, *place)

    def _script(self, log: str, command: str, *before: str) -> str:
        """A script that executes `command`; what its setup says is in its logs too, `log`.out and
        `log`.err."""
        path = os.environ.get("PYTHONPATH")
        lines = [
            "#!/bin/sh",
            *before,
            f"exec >>{log}.out 2>>{log}.err </dev/null",
            # Where tasks of one's own lie; a container without it goes on all the same.
            f"cd {_quoted(Path.cwd())}",
            *([f"export PYTHONPATH={_quoted(path)}"] if path else []),
            *([told] if (told := vouched()) else []),
            *self.config.setup,
            f"exec {command}",
        ]
        return "\n".join(lines) + "\n"


def _quoted(value: Any) -> str:
    """For a shell: a list as several words, null as no text."""
    words = value if isinstance(value, list) else ["" if value is None else value]
    return " ".join(shlex.quote(str(word)) for word in words)
