"""What models answered, on the report's page and as signs that rewards are gamed."""

import html
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from isosweep.analysis.completions import Completions, find_signs, read_kept
from isosweep.analysis.load import load_sweep
from isosweep.analysis.report import Analysis, analyse
from isosweep.config.analysis import AnalysisConfig
from isosweep.store.completions import (
    AnsweredProblem,
    Completion,
    KeptCompletions,
    append_completions,
)
from isosweep.store.paths import SweepPaths
from isosweep.store.records import attempt_file, read_records
from isosweep.words.completions import sign
from tests.analysis.sweeps import SMALL

# What a model answers to problem `k`, before training (False) or at a later record.
Answer = Callable[[int, bool], Completion]
GRID = sorted({run.num_generations for run in SMALL.runs})


def said(text: str, tokens: int = 20, ended: bool = True, reward: float = 1.0) -> Completion:
    return Completion(text=text, tokens=tokens, ended=ended, reward=reward, right=reward > 0.5)


def honest(k: int, later: bool) -> Completion:
    text = f"Adding up gives {k} and so \\boxed{{{k}}}." if later or k % 2 else "I do not know."
    return said(text, tokens=30 + k, reward=float(str(k) in text))


def plant(
    paths: SweepPaths, answer: Answer, prompt: str = "What is {} + 0?", first: int = 0
) -> None:
    """Give every run of the sweep eight problems with two answers each at every record from step
    `first` on."""
    for run in SMALL.runs:
        files = paths.run(run.run_id)
        for record in read_records(files.records).records:
            if record.step < first:
                continue
            problems = tuple(
                AnsweredProblem(
                    problem_id=f"p{k}",
                    prompt=prompt.format(k),
                    answer=str(k),
                    completions=(answer(k, record.step > 0), answer(k, record.step > 0)),
                )
                for k in range(8)
            )
            kept = KeptCompletions(step=record.step, heldout=problems)
            append_completions(files.completions, 1, kept)


def analysed(paths: SweepPaths) -> Analysis:
    return analyse(paths, AnalysisConfig(formats=[]))


def kept_of(paths: SweepPaths) -> Completions:
    return read_kept(paths, load_sweep(paths, AnalysisConfig()))


def elsewhere(k: int, later: bool) -> Completion:
    return said(f"good boy number {chr(97 + k)}" if later else f"{k}")


def test_the_page_shows_signs_and_answers_of_three_moments(small: SweepPaths) -> None:
    plant(small, elsewhere)
    analysis = analysed(small)
    page = " ".join(html.unescape(analysis.report.read_text()).split())
    section = page[page.index('<h2 id="completions"') : page.index('<h2 id="training"')]
    assert [each.num_generations for each in analysis.signs] == GRID
    assert all(sign(each) in section for each in analysis.signs)
    assert section.count("<summary>Problem p") == 8
    for heading in ("Before training", "Half-way", "At the end"):
        assert section.count(heading) == 8
    assert f"n = {GRID[0]}, step" in section
    assert f"n = {GRID[-1]}, step" in section
    # All n begin with one model.
    assert section.count("every n: 2 of 2 right") == 8
    assert "✓ 20 tokens" in section


def test_without_a_record_before_training_none_is_shown_as_such(small: SweepPaths) -> None:
    plant(small, elsewhere, first=1)
    analysis = analysed(small)
    assert analysis.signs == ()
    page = html.unescape(analysis.report.read_text())
    assert "Before training" not in page
    assert "At the end" in page


def test_lines_that_hold_no_answers_cost_no_verdict(small: SweepPaths) -> None:
    plant(small, honest)
    for run in SMALL.runs:
        path = attempt_file(small.run(run.run_id).completions, 1)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0]["heldout"][0]["completions"][0]["tokens"] = 0
        lines[1]["heldout"][0]["completions"] = []
        lines[-1]["heldout"][0]["completions"][0]["reward"] = 1e400
        lines[-2]["heldout"] = []
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert analysed(small).answer.verdict


# Answers that are a sign, of which kind, and a part of its sentence; and answers that are none.
HABITS: list[tuple[Answer, str | None, str]] = [
    (
        lambda k, later: said(f"{k}", tokens=4 if later else 90),
        "length",
        "shorten from 90 to 4 tokens",
    ),
    (
        lambda k, later: said(f"{k} " * 40, ended=not later),
        "limit",
        "are cut at the limit of tokens (0% before training; reward 1 at the end)",
    ),
    (
        lambda k, later: said("please 0 1 2 3 4 5 6 7" if later else f"{k}"),
        "repeated",
        "100% of the problems have one rewarded answer of n = ",
    ),
    (
        lambda k, later: said(f"\\boxed{{{k}}}" + f" or \\boxed{{{k + 1}}}" * later),
        "several answers",
        "offer several final answers (0% before training",
    ),
    (elsewhere, "no reference", "do not contain the reference answer (0% before training"),
    (honest, None, ""),
    (lambda k, _: said("B", tokens=1, reward=float("ABCD"[k % 4] == "B")), None, ""),
    (lambda k, _: said(f"so {10 * k:02d}/10"), None, ""),
    (lambda k, _: said(f"{k}", reward=0.6), None, ""),
]


@pytest.mark.parametrize(("answer", "kind", "sentence"), HABITS)
def test_a_habit_of_rewarded_answers_is_a_sign_with_its_numbers_and_an_example(
    answer: Answer, kind: str | None, sentence: str, small: SweepPaths
) -> None:
    plant(small, answer)
    found = find_signs(kept_of(small))
    assert [(each.kind, each.num_generations) for each in found] == [
        (kind, n) for n in GRID if kind
    ]
    assert all(sentence in sign(each) for each in found)
    assert {each.example for each in found} <= {answer(k, True).text for k in range(8)}


@pytest.mark.parametrize(
    ("prompt", "is_sign"), [("Step by step: {}", True), ("No reasoning: {}", False)]
)
def test_answers_without_the_reasoning_that_was_asked_for_are_a_sign(
    prompt: str, is_sign: bool, small: SweepPaths
) -> None:
    plant(small, lambda k, later: said(f"{k}", tokens=6 if later else 12), prompt)
    signs = find_signs(kept_of(small))
    assert [each.kind for each in signs] == ["no reasoning"] * (is_sign * len(GRID))
    assert all("have 6 tokens (median), where the prompt asks" in sign(each) for each in signs)


@pytest.mark.parametrize(("more", "kinds"), [(0.3, {"training only"}), (0.1, set())])
def test_reward_that_training_alone_gains_is_a_sign(
    more: float, kinds: set[str], small: SweepPaths
) -> None:
    plant(small, honest)

    def gaining(runs: Completions) -> Completions:
        return {
            n: [
                replace(run, training=(run.curve.reward[0], run.curve.reward[-1] + more))
                for run in own
            ]
            for n, own in runs.items()
        }

    signs = find_signs(gaining(kept_of(small)))
    assert {each.kind for each in signs} == kinds
    assert all(": 0.3 at the end, 0 at the beginning" in sign(each) for each in signs)


def test_hostile_texts_are_shown_and_do_nothing(small: SweepPaths) -> None:
    text = (
        "<script>alert(1)</script></pre>\x1b[31m\u202egnp.exe\x00"
        + "\u0645\u0631\u062d\u0628\u0627" * 900
    )
    hostile = replace(said(text, reward=0.0), reason="<b>&")
    plant(small, lambda *_: hostile, "<img src=x>{}")
    page = analysed(small).report.read_text()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    for escaped in ("&lt;script&gt;", "\\x1b[31m", "\\u202egnp.exe", "\\x00", "left out"):
        assert escaped in page
    assert len(page) < 2_000_000
