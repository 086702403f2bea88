"""The logs of a run that `mode=status` shows, and the words by which runs are chosen."""

from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.modes.choice import choose
from isosweep.modes.logs import last_lines
from isosweep.plan.tally import Standing
from tests.modes.looked_after import sweep_in


def test_the_last_lines_of_a_file_are_found_however_long_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = ["x" * 5000, "y" * 90000, "é" * 4000, "last"]
    path.write_text("\n".join(lines))
    for count in (1, 2, 3, 4, 9):
        assert last_lines(path, count) == lines[-count:]
    path.write_bytes(b"\xff torn \xe2")
    assert len(last_lines(path, 2)) == 1


def test_progress_bars_are_lines_in_their_last_state_and_none_about_files(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    loading = "\rLoading weights:   0%|  | 0/26\rLoading weights: 100%|##| 26/26\n"
    steps = "\rsteps:   0%|  | 0/9\rsteps:  50%|# | 4/9\rsteps: 100%|##| 9/9\n"
    path.write_text(f"{loading}begun\n{steps}{'x' * 3000}\r\nended\r\n", newline="")
    lines = ["begun", "steps: 100%|##| 9/9", "x" * 3000, "ended"]
    assert last_lines(path, 9) == lines
    assert last_lines(path, 2) == lines[2:]


def test_words_of_one_kind_widen_the_choice_and_several_kinds_narrow_it(tmp_path: Path) -> None:
    plan = sweep_in(tmp_path, "grid.seeds=[0,1]").plan

    def chosen(*words: str) -> list[tuple[int, int]]:
        return [(run.num_generations, run.seed) for run in choose(words, plan).runs]

    everything = [(2, 0), (2, 1), (4, 0), (4, 1)]
    assert sorted(chosen()) == everything
    assert sorted(chosen("n:2", "n:4")) == everything
    assert sorted(chosen("n:2", "seed:1")) == [(2, 1)]
    assert sorted(chosen("*-n4-*")) == chosen("n4-B4") == [(4, 0), (4, 1)]
    assert chosen(plan.runs[0].run_id) == [(plan.runs[0].num_generations, plan.runs[0].seed)]
    choice = choose(["not_begun", "running", "seed:0"], plan)
    assert choice.standings == {Standing.NOT_BEGUN, Standing.RUNNING}
    assert len(choice.runs) == 2
    for word in ("n:3", "m:2", "n9", "nearly_done"):
        with pytest.raises(SettingError, match="fits none of the plan's 4 runs"):
            choose([word], plan)
