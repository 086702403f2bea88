"""A run's identity: what it is made of, and that it never changes by itself."""

from pathlib import Path

import pytest

from isosweep.errors import SettingError
from isosweep.plan.spec import RunSpec, resolve_learning_rate, run_spec
from tests.conftest import make_config

# The default sweep before it was one of few problems.
BEFORE = (
    *("task.num_train_problems=1024", "recipe.learning_rate=2e-4"),
    "recipe.learning_rate_rule=sqrt",
)
# Names of runs: a change here means that finished runs are trained again.
RUN_IDS = {
    "": "tiny-sort-n8-B4-s1-ef3f0f0c89a2",
    "model=qwen-1.5b": "qwen-1.5b-math-n8-B4-s1-bddc8948caec",
    "model=qwen-7b hardware.devices_per_run=8 hardware.sharding=fsdp recipe.lora_rank=32": (
        "qwen-7b-math-n8-B4-s1-49dd6cfff428"
    ),
    "model=qwen3-30b-a3b recipe=scalerl": ("qwen3-30b-a3b-math-n8-B4-s1-f6ea117290a8"),
    "model=llama-8b recipe=dapo generation=transformers": ("llama-8b-math-n8-B4-s1-468e85ea7ed2"),
    "model=qwen-0.5b recipe.importance_sampling_cap=3 "
    "generation.importance_sampling_correction=false": ("qwen-0.5b-math-n8-B4-s1-ca26200371b6"),
    "model=qwen-0.5b recipe.importance_sampling_cap=3 generation.sleep=true": (
        "qwen-0.5b-math-n8-B4-s1-396b989e7268"
    ),
    "recipe.beta=0.04 ++recipe.trl.use_bias_correction_kl=true": "tiny-sort-n8-B4-s1-dc3272bf6c4d",
    "recipe.zero_variance=resample recipe.max_draws=4 recipe.planned_draws=2": (
        "tiny-sort-n8-B4-s1-f073efd5f380"
    ),
    "task.max_completion_tokens=8": "tiny-sort-n8-B4-s1-f4fcb78cdc72",
    "model=qwen-0.5b task=reasoning_gym": "qwen-0.5b-reasoning_gym-n8-B4-s1-cbdbca97e848",
    "model=qwen-0.5b task=math task.math.dataset=null task.math.path=problems.jsonl": (
        "qwen-0.5b-math-n8-B4-s1-fde4177405fa"
    ),
    "model=qwen-0.5b task=code task.code.dataset=null task.code.path=problems.jsonl": (
        "qwen-0.5b-code-n8-B4-s1-9496448c7514"
    ),
    "model=qwen-0.5b task=custom task.custom.function=a.b:c task.custom.directory=here": (
        "qwen-0.5b-custom-n8-B4-s1-252e336a3ef4"
    ),
    "model.revision=abc evaluation.seed=3 task.data_seed=5 recipe.rollout_lag=2": (
        "tiny-sort-n8-B4-s1-9731094be70d"
    ),
}


def spec_of(*overrides: str) -> RunSpec:
    """A run of these settings: n = 8, B = 4, seed 1."""
    return run_spec(
        make_config(*overrides),
        num_generations=8,
        problems_per_batch=4,
        seed=1,
        micro_batch=2,
        vllm_share=0.25,
    )


@pytest.mark.parametrize(("overrides", "run_id"), RUN_IDS.items(), ids=range(len(RUN_IDS)))
def test_run_ids_stay_as_they_are(
    overrides: str, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("problems.jsonl").write_text('{"problem": "1 + 1", "answer": "2"}\n')
    before = () if "model=qwen" in overrides or "model=llama" in overrides else BEFORE
    spec = spec_of(*before, *overrides.split())
    assert spec.run_id == run_id
    assert RunSpec.from_json(spec.to_json()).run_id == run_id


def test_the_rate_is_that_of_an_update() -> None:
    whole = make_config("recipe.learning_rate_rule=sqrt").recipe
    parts = make_config("recipe.learning_rate_rule=sqrt", "recipe.mini_batches=4").recipe
    assert resolve_learning_rate(parts, 64) == resolve_learning_rate(whole, 16)


def test_a_broken_spec_file_is_refused_by_name() -> None:
    document = spec_of().to_json()
    document["recipe"]["beta"] = -1
    with pytest.raises(SettingError, match=r"^spec\.recipe\.beta=-1: must be greater than"):
        RunSpec.from_json(document)
