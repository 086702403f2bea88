"""The built wheel works in a clean environment, beside folders named like its packages."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from isosweep import __version__

pytestmark = pytest.mark.package
ROOT = Path(__file__).resolve().parent.parent


# Without what may lead Python to the checkout.
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=CLEAN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_plans_from_a_directory_with_the_same_folder_names(tmp_path: Path) -> None:
    _run(
        *(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist"),
        cwd=ROOT,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    pages = [path for path in (ROOT / "analysis" / "pages").iterdir() if path.is_file()]
    assert {path.suffix for path in pages} == {".py", ".css"}
    assert {f"isosweep/analysis/pages/{path.name}" for path in pages} <= shipped
    words = [path for path in (ROOT / "isosweep" / "words").iterdir() if path.is_file()]
    assert {path.suffix for path in words} == {".py", ".html"}
    assert {f"isosweep/words/{path.name}" for path in words} <= shipped
    (metadata,) = (name for name in shipped if name.endswith(".dist-info/METADATA"))
    said = zipfile.ZipFile(wheel).read(metadata).decode()
    extras = {line.split()[1] for line in said.splitlines() if line.startswith("Provides-Extra:")}
    assert extras == {"analysis", "train", "vllm", "laptop", "logs", "wandb", "ray", "docs", "dev"}
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean" / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=ROOT)
    elsewhere = tmp_path / "elsewhere"
    for name in ("analysis", "launchers", "conf"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    output = _run(python, "-m", "isosweep", "mode=plan", cwd=elsewhere)
    assert "18 runs" in output
    version = _run(tmp_path / "clean" / "bin" / "isosweep", "--version", cwd=elsewhere)
    assert version.split() == ["isosweep", __version__]
    door = "import isosweep; print(isosweep.__file__, isosweep.make_plan(budget=1e10).price.runs)"
    where, runs = _run(python, "-c", door, cwd=elsewhere).split()
    assert str(tmp_path / "clean") in where
    assert int(runs) > 0
    # It installs what planning needs; the rest is named, not traced.
    for mode in ("analyse", "run"):
        refused = subprocess.run(
            [str(python), "-m", "isosweep", f"mode={mode}"],
            cwd=elsewhere,
            env=CLEAN,
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 2
        assert "missing: the package scipy" in refused.stderr
        assert "pip install 'isosweep[analysis]'" in refused.stderr
    # Raises unless the wheel, which is built from the sdist, holds the weights that were shipped.
    code = "from isosweep.models.builtin import builtin_model; print(builtin_model())"
    assert str(tmp_path / "clean") in _run(python, "-c", code, cwd=elsewhere)
    imports = "import isosweep.launchers.queue, isosweep.analysis as a; print(a.__file__)"
    assert str(tmp_path / "clean") in _run(python, "-c", imports, cwd=elsewhere)
