"""What models answered, on the report's page and as signs that rewards are gamed."""

import html
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from isosweep.analysis.completions import find_signs, read_kept
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
            append_completions(
                files.completions, 1, KeptCompletions(step=record.step, heldout=problems)
            )


def analysed(paths: SweepPaths) -> Analysis:
    return analyse(paths, AnalysisConfig(formats=[]))


def test_the_page_shows_answers_of_three_moments_and_no_sign_of_honest_ones(
    small: SweepPaths,
) -> None:
    plant(small, honest)
    analysis = analysed(small)
    assert analysis.signs == ()
    page = html.unescape(analysis.report.read_text())
    section = page[page.index('<h2 id="completions"') : page.index('<h2 id="training"')]
    assert section.count("<summary>Problem p") == 8
    for heading in ("Before training", "Half-way", "At the end"):
        assert section.count(heading) == 8
    (smallest, *_, largest) = sorted({run.num_generations for run in SMALL.runs})
    assert f"n = {smallest}, step" in section
    assert f"n = {largest}, step" in section
    # All n begin with one model, which answers every second problem.
    assert section.count("every n: 2 of 2 right") == section.count("every n: 0 of 2 right") == 4
    assert "✓ 37 tokens" in section


def unsure(k: int, later: bool) -> Completion:
    return said("B", tokens=1, reward=float("ABCD"[k % 4] == "B"))


def otherwise(k: int, later: bool) -> Completion:
    return said(f"so {10 * k:02d}/10")


def in_part(k: int, later: bool) -> Completion:
    return said(f"{k}", reward=0.6)


@pytest.mark.parametrize("answer", [unsure, otherwise, in_part])
def test_honest_habits_are_no_signs(answer: Answer, small: SweepPaths) -> None:
    plant(small, answer)
    assert analysed(small).signs == ()


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
    analysis = analysed(small)
    assert analysis.answer.verdict
    assert analysis.signs == ()


def shorter(k: int, later: bool) -> Completion:
    return said(f"{k}", tokens=4 if later else 90)


def cut(k: int, later: bool) -> Completion:
    return said(f"{k} " * 40, ended=not later)


def same(k: int, later: bool) -> Completion:
    return said("please 0 1 2 3 4 5 6 7" if later else f"{k}")


def elsewhere(k: int, later: bool) -> Completion:
    return said(f"good boy number {chr(97 + k)}" if later else f"{k}")


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (shorter, "length", "shorten from 90 to 4 tokens"),
        (cut, "limit", "100% of the rewarded answers of n = 2 are cut at the limit"),
        (same, "repeated", "100% of the problems have one rewarded answer of n = 2 in common"),
        (elsewhere, "no reference", "do not contain the reference answer (0% before training"),
    ],
)
def test_a_habit_of_rewarded_answers_is_a_sign_with_its_numbers_and_an_example(
    answer: Answer, kind: str, sentence: str, small: SweepPaths
) -> None:
    plant(small, answer)
    analysis = analysed(small)
    (first, *others) = analysis.signs
    assert {each.kind for each in analysis.signs} == {kind}
    grid = sorted({run.num_generations for run in SMALL.runs})
    assert [each.num_generations for each in (first, *others)] == grid
    assert sentence in sign(first)
    assert first.example in {answer(k, True).text for k in range(8)}
    page = " ".join(html.unescape(analysis.report.read_text()).split())
    assert all(sign(each) in page for each in analysis.signs)


@pytest.mark.parametrize(("more", "kinds"), [(0.3, {"training only"}), (0.1, set())])
def test_reward_that_training_alone_gains_is_a_sign(
    more: float, kinds: set[str], small: SweepPaths
) -> None:
    plant(small, honest)
    kept = read_kept(small, analysed(small).data)
    signs = find_signs(
        {
            n: [
                replace(run, training=(run.curve.reward[0], run.curve.reward[-1] + more))
                for run in runs
            ]
            for n, runs in kept.items()
        }
    )
    assert {each.kind for each in signs} == kinds
    assert all("minus held-out reward of n = " in sign(each) for each in signs)
    assert all(": 0.3 at the end, 0 at the beginning" in sign(each) for each in signs)


def test_hostile_texts_are_shown_and_do_nothing(small: SweepPaths) -> None:
    text = (
        "<script>alert(1)</script></pre>\x1b[31m\u202egnp.exe\x00"
        + "\u0645\u0631\u062d\u0628\u0627" * 900
    )

    def hostile(k: int, later: bool) -> Completion:
        return replace(said(text, reward=0.0), reason="<b>&")

    plant(small, hostile, "<img src=x>{}")
    page = analysed(small).report.read_text()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    for escaped in (
        "&lt;script&gt;",
        "\\x1b[31m",
        "\\u202egnp.exe",
        "\\x00",
        "characters left out",
    ):
        assert escaped in page
    assert len(page) < 2_000_000
