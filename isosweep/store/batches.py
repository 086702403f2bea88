"""Batches: which submissions went to a scheduler together, so that a job finds its own by number.

    sweeps/<sweep>/batches/<batch>.json   {"version": 1, "submissions": [paths]}

Line i is task i of a job array.
"""

from collections.abc import Sequence
from pathlib import Path

from isosweep.errors import RecordError
from isosweep.files import make_directory, read_json, write_json
from isosweep.store.submissions import Submission

BATCH_VERSION = 1


def batch_file(submission: Submission) -> Path:
    """The file of the submission's batch."""
    return Path(submission.sweep) / "batches" / f"{submission.batch}.json"


def write_batch(submissions: Sequence[Submission]) -> Path:
    """Write the file of one batch, whose submissions are all of `submissions`, by `index`."""
    path = batch_file(submissions[0])
    make_directory(path.parent)
    paths = [str(submission.path) for submission in submissions]
    write_json(path, {"version": BATCH_VERSION, "submissions": paths})
    return path


def read_batch(path: Path, index: int) -> Path:
    """The submission of task `index` of a batch. Raises RecordError where there is none."""
    try:
        document = read_json(path)
        if document is None or document["version"] != BATCH_VERSION:
            raise ValueError(f"not version {BATCH_VERSION}")
        return Path(document["submissions"][index])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: holds no submission {index} of a batch ({error!r})") from None
