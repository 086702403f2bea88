"""Names in `sweeps_dir` that are no sweep's: of what isosweep and its libraries keep there."""

# What lies in `sweeps_dir` beside the sweeps.
RUNS, TRAINED, DIFFICULTY = "runs", "trained", "difficulty"
PROBLEMS, EVALUATIONS = "problems", "evaluations"
MLFLOW, ARTIFACTS, COMPARISON, TRASH = "mlflow.db", "mlartifacts", "comparison-", "trash"
_BESIDE = (
    *(RUNS, TRAINED, DIFFICULTY, PROBLEMS, EVALUATIONS, MLFLOW, ARTIFACTS, TRASH),
    # Hydra's, MLflow's and W&B's own; and where studies' sweeps are kept.
    *("multirun", "mlruns", "wandb", "studies"),
)


def is_beside_sweeps(name: str) -> bool:
    """Whether a file of isosweep's in `sweeps_dir` has the name, or is one of its kin, such as
    mlflow.db-wal, or has on some file systems: Runs."""
    name = name.casefold()
    files = tuple(each.partition(".")[0] + "." for each in _BESIDE if "." in each)
    return name in _BESIDE or name.startswith((*files, COMPARISON))
