"""The benchmarks run; what they measure is for their readers."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.train
def test_the_gpu_benchmark_runs_on_a_cpu_too(tmp_path: Path) -> None:
    options = ["--model", "tiny", "--hardware", "cpu", "--completion", "8", "--steps", "2"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "tiny, micro-batch 64:" in done.stdout
    assert "seconds per step   predicted" in done.stdout
    assert list(tmp_path.iterdir()) == []
