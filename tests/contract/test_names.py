"""No sweep lies where isosweep keeps files of its own beside the sweeps."""

from pathlib import Path

import pytest

from tests.contract.surface import isosweep, refused, write_csv

OWN = [
    *("runs", "trained", "evaluations", "problems", "difficulty"),
    *("mlflow.db", "mlflow.db-wal", "mlflow.db-shm", "mlflow.db-journal", "mlflow.lock"),
    *("mlartifacts", "mlruns", "multirun", "wandb", "trash", "studies", "comparison-0a1b2c3d"),
    *("Runs", "MLflow.db"),
]


@pytest.mark.parametrize("name", OWN)
def test_a_sweep_has_no_name_of_isosweep_s_own_files(name: str, tmp_path: Path) -> None:
    said = refused("mode=plan", f"sweep={name}", cwd=tmp_path)
    assert said.startswith(f"isosweep: sweep={name}: is the name of a file of isosweep's own")
    assert said.endswith(f"Nearest choice that works: sweep=my-{name}\n")
    assert f"{tmp_path}/sweeps/{name}: is the name" in refused(
        "mode=plan", f"sweep=sweeps/{name}", cwd=tmp_path
    )
    assert not list(tmp_path.iterdir())


def test_names_beside_them_are_free(tmp_path: Path) -> None:
    for name in ("my-mlflow.db", "mlflow", "runs2", "comparison"):
        isosweep("mode=plan", f"sweep={name}", cwd=tmp_path)
    row = {"B": 4, "seed": 0, "reward": 0.5}
    rows = [{"n": n, "rollouts": at, **row} for n in (4, 8) for at in (100, 200)]
    table = write_csv(tmp_path / "rows.csv", rows)
    said = refused("mode=import", f"import.files={table}", "sweep=sweeps/trained", cwd=tmp_path)
    assert "sweeps/trained: is the name of a file of isosweep's own" in said
