"""The benchmarks run; what they measure is for their readers."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.train
def test_the_gpu_benchmark_runs_on_a_cpu_too(tmp_path: Path) -> None:
    options = ["--model", "tiny", "--hardware", "cpu", "--completion", "8", "--steps", "2"]
    options += ["--backend", "transformers"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, *lines, last = done.stdout.splitlines()
    assert first.startswith("tiny, transformers, CPU")
    for line, what in zip(lines, ("seconds per step", "generated", "trained"), strict=True):
        assert line.strip().startswith(what)
    step = float(lines[0].split("measured")[1].split()[0])
    phases = [float(word.rstrip(",")) for word in last.split() if word[0].isdigit()]
    assert len(phases) == 3
    assert min(phases) > 0
    assert sum(phases) == pytest.approx(step, abs=0.01)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.train
def test_the_worker_benchmark_times_all_sides_and_the_parts_of_a_start(tmp_path: Path) -> None:
    options = ["--num-generations", "2", "--block", "2", "--blocks", "3", "--starts", "1"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "worker.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    cells = lines[2].split()
    assert cells[0] == "2"
    assert min(map(float, cells[1:4])) > 0
    (whole,) = (line.split() for line in lines if line.strip().startswith("in all"))
    parts = [float(line.rsplit(maxsplit=1)[1]) for line in lines[4 : lines.index(lines[-1])]]
    assert len(parts) == 10
    assert float(whole[2]) == pytest.approx(sum(parts), abs=0.1)
    assert list(tmp_path.iterdir()) == []
