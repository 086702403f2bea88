"""A line that was not written whole ends no import and no run; a broken one is named."""

import sys
from pathlib import Path

import pytest

import isosweep as library
from tests.contract import logs
from tests.contract.surface import isosweep, refused

ALL = {key: list(logs.STEPS) for key in logs.RUNS}
# The file that is torn, and what was written of its next row.
TORN = {
    "csv": ["110,8,6", "110,8,64,1,0.", "110,8,64,1,0", "110,8,64,1,", "1", '110,"8'],
    "tsv": ["110\t8\t6", "110\t8\t64\t1\t0."],
    "jsonl": ['{"step": 110, "n": 8, "B": 64, "se', "{", '{"step": 110, "eval_reward": 0.48'],
    "log": [
        "step:110 - actor/entropy:0.2 - val-core/gsm8k/reward/mean@8:0.",
        "step:110 - actor/entropy:0.2 - val-core/gsm8k/reward/mean@8:np.float64(0.4",
        "step:110 - actor/entropy:0.2 - val-core/gsm8k/rew",
        "step:1",
    ],
}


def write(root: Path, kind: str) -> Path:
    """Logs of six runs; the file that is torn."""
    if kind == "jsonl":
        logs.write_json_lines(root)
    elif kind == "log":
        logs.write_consoles(root)
    else:
        logs.write_csv_logs(root)
    if kind == "tsv":
        for path in root.iterdir():
            path.write_text(path.read_text().replace(",", "\t"))
            path.rename(path.with_suffix(".tsv"))
    return root / f"n8_s1.{kind}"


def arguments(tmp_path: Path, kind: str) -> list[str]:
    if kind != "log":
        return ["import.files=logs"]
    names = {(n, seed): f"n{n}_s{seed}.log" for n, seed in logs.RUNS}
    table = logs.write_runs_table(tmp_path / "runs.csv", names)
    return ["import.files=logs", f"import.runs={table}"]


@pytest.mark.parametrize(("kind", "torn"), [(kind, torn) for kind in TORN for torn in TORN[kind]])
def test_a_torn_last_line_is_left_out_with_a_note(tmp_path: Path, kind: str, torn: str) -> None:
    path = write(tmp_path / "logs", kind)
    path.write_text(path.read_text() + torn)
    printed, records = logs.imported(tmp_path, *arguments(tmp_path, kind))
    assert logs.steps_of(records) == ALL
    if torn != "step:1":
        # That is no line of verl's yet.
        assert f"the last line of logs/n8_s1.{kind} was not written whole: left out" in printed


@pytest.mark.parametrize("kind", TORN)
def test_a_whole_last_line_without_an_end_counts(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "logs", kind)
    for path in (tmp_path / "logs").iterdir():
        path.write_text(path.read_text().rstrip("\n"))
    printed, records = logs.imported(tmp_path, *arguments(tmp_path, kind))
    assert logs.steps_of(records) == ALL
    assert "not written whole" not in printed


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("jsonl", '{"step": 20, "n": 8, "B{"step": 30, "n": 8, "B": 64, "eval_reward": 0.3}\n'),
        ("jsonl", "Killed\n"),
        ("csv", "20,8,630,8,64,1,0.3\n"),
        ("csv", "20,8,64\n"),
        ("tsv", "20\t8\n"),
    ],
)
def test_a_broken_line_inside_is_refused_with_its_number(
    tmp_path: Path, kind: str, line: str
) -> None:
    path = write(tmp_path / "logs", kind)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], line, *lines[3:]]))
    said = refused("mode=import", "import.files=logs", cwd=tmp_path)
    assert f"import.files=logs/n8_s1.{kind}: line 4 " in said


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_log_in_another_encoding_is_refused_with_its_line(
    tmp_path: Path, kind: str, encoding: str
) -> None:
    path = write(tmp_path / "logs", kind)
    text = path.read_text().replace(
        "eval_reward", "eval_reward\u00e9" if kind == "csv" else "eval_reward"
    )
    if kind == "jsonl":
        lines = text.splitlines(keepends=True)
        text = "".join([*lines[:2], '{"note": "mod\u00e8le"}\n', *lines[2:]])
    path.write_bytes(text.encode(encoding))
    said = refused("mode=import", "import.files=logs", cwd=tmp_path)
    line = 3 if kind == "jsonl" and encoding == "latin-1" else 1
    assert f"import.files=logs/n8_s1.{kind}: line {line} is not UTF-8" in said


@pytest.mark.parametrize(("kind", "separator"), [("csv", ";"), ("csv", "|"), ("tsv", ",")])
def test_a_table_shows_what_separates_its_values(tmp_path: Path, kind: str, separator: str) -> None:
    write(tmp_path / "logs", kind)
    for path in (tmp_path / "logs").iterdir():
        text = path.read_text().replace({"csv": ",", "tsv": "\t"}[kind], separator)
        path.write_text(text)
    _, records = logs.imported(tmp_path, "import.files=logs")
    assert logs.steps_of(records) == ALL


TRAINER = """
import argparse, pathlib, time
parser = argparse.ArgumentParser()
for name in ("n", "batch", "steps", "seed"):
    parser.add_argument(f"--{name}", type=int)
parser.add_argument("--log", type=pathlib.Path)
own = parser.parse_args()
own.log.parent.mkdir(parents=True, exist_ok=True)
table = own.log.suffix == ".csv"
with own.log.open("a") as log:
    if table:
        log.write("step,eval_reward\\n")
    for step in range(0, own.steps + 1, max(1, own.steps // 5)):
        reward = 0.54321 if step == own.steps else round(0.31 + 0.01 * step, 2)
        form = "%d,%s" if table else '{"step": %d, "eval_reward": %s}'
        line = form % (step, reward)
        # A buffer that is full is written, wherever in a line that is.
        log.write(line[:-3])
        log.flush()
        time.sleep(0.5 if step == own.steps else 0)
        log.write(line[-3:] + "\\n")
        log.flush()
    log.write(TORN)
"""


@pytest.mark.parametrize(
    ("name", "torn"),
    [("log.jsonl", '{"step": 99, "eval_'), ("log.csv", "99"), ("log.csv", "99,0.3")],
)
def test_a_command_that_ends_in_a_line_has_trained_its_run(
    tmp_path: Path, name: str, torn: str
) -> None:
    """Nor is half of a line believed that is still being written."""
    (tmp_path / "trainer.py").write_text(TRAINER.replace("TORN", repr(torn)))
    command = f"{sys.executable} {tmp_path}/trainer.py --n {{n}} --batch {{B}} --steps {{T}}"
    done = isosweep(
        "trainer=command",
        f"trainer.command='{command} --seed {{seed}} --log {{directory}}/{name}'",
        f"trainer.log='{{directory}}/{name}'",
        "trainer.poll_s=0.1",
        "budget=[320]",
        "budget_unit=rollouts",
        "grid.num_generations=[4]",
        "grid.problems_per_batch=[4]",
        "grid.seeds=[0]",
        "sweep=x",
        "tracking=none",
        cwd=tmp_path,
    )
    records = library.open(tmp_path / "sweeps" / "x").records
    assert records["step"].tolist() == [0, 4, 8, 12, 16, 20], done.stdout
    rewards = [0.31, 0.35, 0.39, 0.43, 0.47, 0.54321]
    assert records["reward"].tolist() == pytest.approx(rewards)
