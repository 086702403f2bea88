"""The evaluation before training is taken once for all runs of a model, and is the same record."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths
from isosweep.store.records import Evaluation, read_records
from tests.training.builders import spec_of, trained

pytestmark = pytest.mark.train


def test_what_changes_its_numbers_and_nothing_else_names_it() -> None:
    from isosweep.training.base_evaluation import base_identity

    spec = spec_of()
    name = base_identity(spec)

    def other(group: str, **changes: Any) -> RunSpec:
        return replace(spec, **{group: replace(getattr(spec, group), **changes)})

    same = (
        *(spec_of(n=8, B=2), replace(spec, seed=3)),
        *(other("recipe", loss_type="grpo", temperature=0.6), other("model", name="other")),
        *(other("evaluation", records_per_decade=2), replace(spec, evaluation_batch=60)),
    )
    assert {base_identity(each) for each in same} == {name}
    others = (
        *(other("evaluation", seed=1), other("evaluation", temperature=0.5)),
        *(other("evaluation", samples_per_problem=3), other("evaluation", temperature=0.9)),
        *(other("task", num_eval_problems=30), other("task", data_seed=1)),
        *(other("task", max_completion_tokens=5), other("recipe", lora_rank=4)),
        *(replace(spec, devices=2), replace(spec, dtype="bfloat16")),
    )
    names = {base_identity(each) for each in others}
    assert len(names) == len(others)
    assert name not in names


def test_engines_that_hold_as_much_at_once_share_it_and_others_do_not() -> None:
    from isosweep.training.base_evaluation import base_identity

    def engine(n: int = 4, **limits: Any) -> str | None:
        spec = spec_of(n=n)
        sampler = replace(spec.generation, name="vllm")
        held = {"vllm_max_num_seqs": 64, "vllm_max_num_batched_tokens": 512}
        return base_identity(replace(spec, generation=sampler, **{**held, **limits}))

    assert engine() == engine(n=8) == engine(vllm_share=0.5)
    limits = ("vllm_max_num_seqs", "vllm_max_num_batched_tokens", "vllm_cache_bytes")
    assert len({engine(), *(engine(**{name: 128}) for name in limits)}) == 4


def test_runs_share_it_and_their_record_is_the_one_that_they_would_take(tmp_path: Path) -> None:
    from isosweep.training.evaluate import Evaluator
    from isosweep.training.policy import load_policy

    def run_of(n: int) -> RunPaths:
        return trained(spec_of(n=n), tmp_path, (16.0,), unit="rollouts")

    runs = run_of(2), run_of(4)
    (file,) = (tmp_path / "evaluations").glob("*")
    document = json.loads(file.read_text())
    shared = Evaluation.from_json(document)
    model, tokenizer = load_policy(spec_of(), weights(spec_of().model))
    assert Evaluator(spec_of(), tokenizer)(model) == shared
    for run in runs:
        first, *later = read_records(run.records).records
        assert (first.step, first.samples_per_problem) == (0, 2)
        assert first.to_json().items() >= shared.to_json().items()
        # What came before the first evaluation is apart, and in every record.
        assert {record.compute.startup_seconds for record in (first, *later)} == {
            first.compute.startup_seconds
        }
        assert first.compute.startup_seconds > 0
    # Numbers that it would not find, so that it is seen whose they are, and none that can be read.
    theirs = replace(shared, completion_tokens=0.1 + 0.2)
    for n, content, expected in ((8, json.dumps(theirs.to_json()), theirs), (16, "{}", shared)):
        file.write_text(content)
        assert read_records(run_of(n).records).records[0].to_json().items() >= (
            expected.to_json().items()
        )
        assert Evaluation.from_json(json.loads(file.read_text())) == expected
