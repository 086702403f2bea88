"""mode=recommend says what the report says, and says it to whoever may read the sweep."""

import json
import math
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import in_process
from tests.contract.surface import answer_of, isosweep, write_csv

# The first record of each n: n = 4, the best one, has none at the first of the budgets.
BEGIN = {4: 3, 8: 0, 16: 0, 32: 2}
BUDGETS = "budget=[2e4,4e4,8e4,1.6e5]"


def rows(seeds: int) -> Iterator[dict[str, object]]:
    """Runs of four n, evaluated at growing compute, some of which begin late."""
    for n, first in BEGIN.items():
        for seed in range(seeds):
            for k in range(first, 10):
                rollouts = 1e4 * 2 ** (k / 2)
                off = math.log2(n / 4) - 0.3 * math.log2(rollouts / 2e4)
                luck = 0.004 * math.sin(17 * n + 5 * seed + 3 * k)
                reward = 0.2 + 0.1 * math.log10(rollouts / 1e4) - 0.015 * off**2 + luck
                yield {
                    **{"n": n, "B": 64, "seed": seed, "rollouts": round(rollouts)},
                    **{"reward": round(reward, 5), "standard_error": 0.003},
                }


def analysed(cwd: Path, seeds: int) -> Path:
    """A directory with the analysed sweep `imported`, which is made of the rows."""
    table = write_csv(cwd / "rows.csv", rows(seeds))
    isosweep("mode=import", f"import.files={table}", "sweep=imported", BUDGETS, cwd=cwd)
    isosweep("mode=analyse", "sweep=imported", cwd=cwd)
    return cwd


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return analysed(tmp_path_factory.mktemp("three"), 3)


def recommended(cwd: Path, *overrides: str) -> list[dict[str, Any]]:
    """What mode=recommend says as JSON."""
    given = ("mode=recommend", "sweep=[imported]", "format=json", *overrides)
    (variant,) = json.loads(isosweep(*given, cwd=cwd).stdout)["variants"]
    recommendations: list[dict[str, Any]] = variant["recommendations"]
    return recommendations


@pytest.mark.parametrize("seeds", [1, 3])
def test_at_a_budget_of_the_sweep_it_is_the_report(seeds: int, three: Path, tmp_path: Path) -> None:
    cwd = three if seeds == 3 else analysed(tmp_path, seeds)
    answer = answer_of(cwd / "sweeps" / "imported")
    # As the report prints them.
    budgets = ",".join(f"{each['budget']:.4g}" for each in answer["optima"])
    splits = recommended(cwd, f"budget=[{budgets}]")
    for split, own, at in zip(splits, answer["optima"], answer["generations"], strict=True):
        (best,) = (
            each
            for each in at["choices"]
            if each["cell"]["num_generations"] == at["best"]["num_generations"]
        )
        assert split["num_generations"] == best["cell"]["num_generations"]
        assert split["num_steps"] == best["cell"]["num_steps"]
        assert split["n_star"] == own["n_star"]
        assert split["n_d"] == own["n_d"]
        assert split["reward"] == (best["expected"] or best["cell"]["mean"])
        assert split["interval"] == best["interval"]
        others = {*own["candidates"]} - {split["num_generations"]}
        assert split["alternatives"] == sorted(others)


def test_between_two_budgets_all_it_says_is_of_the_same_n(three: Path) -> None:
    (split,) = recommended(three, "budget=2.4e4")
    assert 4 in split["missing"]
    assert split["num_generations"] != 4
    assert 4 not in split["alternatives"]
    assert split["n_star"]["low"] >= 8
    text = isosweep("mode=recommend", "sweep=[imported]", "budget=2.4e4", cwd=three).stdout
    assert "not read at 2.83e4 and 2e4: n = 4" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_who_may_only_read_a_sweep_gets_its_answer(three: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        lab = Path(directory)
        sweep = shutil.copytree(three / "sweeps", lab / "sweeps") / "imported"
        for path in (lab, *lab.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        kept = in_process(("mode=recommend", f"sweep=[{sweep}]"), three).stdout
        (sweep / "analysis" / "recommendation.json").unlink()
        commands = (
            ("mode=recommend", f"sweep=[{sweep}]"),
            ("mode=recommend", f"sweep=[{sweep}]", "format=json"),
            ("mode=analyse", f"sweep={sweep}"),
        )
        text, document, refused = (as_another_user(command, lab) for command in commands)
        assert text[:2] == [0, kept.partition("recommendation: ")[0]]
        assert document[0] == 0
        assert len(json.loads(document[1])["variants"][0]["recommendations"]) == 4
        for done in (text, document):
            line = f"the recommendation is not kept: {sweep}/analysis cannot be written"
            assert done[2].startswith(line)
        assert refused[0] == 2
        assert f"is written into {sweep}/analysis, which you may only read" in refused[2]


def as_another_user(overrides: tuple[str, ...], cwd: Path) -> list[Any]:
    """Exit status, output and errors of a command of a user who may write nothing of root's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            other = pwd.getpwnam("nobody")
            os.setgroups([])
            os.setgid(other.pw_gid)
            os.setuid(other.pw_uid)
            done = in_process(overrides, cwd)
            with os.fdopen(writer, "w") as file:
                json.dump([done.returncode, done.stdout, done.stderr], file)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer: list[Any] = json.load(file)
    os.waitpid(child, 0)
    return answer
