"""A model of every family is planned from its config.json, and trained as its paper has it."""

import json
from pathlib import Path

import pytest

from isosweep.models.weights import missing_weights
from isosweep.plan.spec import RunSpec, run_spec
from tests.conftest import candidates_of, in_ci, make_config
from tests.models.families import FAMILIES, save_family
from tests.tasks.files import ROWS, math_overrides, write_rows
from tests.training.builders import parameters, train, trainer_of

pytestmark = pytest.mark.train


def spec_of(model: Path, folder: Path, *more: str) -> RunSpec:
    data = write_rows(folder / "problems.jsonl", ROWS)
    config = make_config(
        *("model=local", f"model.path={model}", *math_overrides(data)),
        *("task.max_completion_tokens=16", "recipe=tiny", "hardware=cpu", "grid=tiny"),
        *("generation=transformers", "budget=1e10", *more),
    )
    assert missing_weights(config.model) == []
    (table,) = candidates_of(config)
    assert (table.memory.micro_batch > 0).all()
    return run_spec(config, num_generations=2, problems_per_batch=2, seed=0, micro_batch=2)


# Experts, windows and norms of both sides, scaled logits; the built-in model is a plain one.
COMMON = ("Qwen2Moe", "Gemma3Text", "Granite")


@pytest.mark.parametrize("family", in_ci(FAMILIES, *COMMON))
def test_a_saved_model_is_planned_and_trained(family: str, tmp_path: Path) -> None:
    import torch

    from isosweep.training.evaluate import Evaluator

    directory = save_family(tmp_path / family, family)
    if family == "Qwen2Moe":
        # A mixture that balances its load.
        config = directory / "config.json"
        document = json.loads(config.read_text()) | {"output_router_logits": True}
        config.write_text(json.dumps(document))
    spec = spec_of(directory, tmp_path, "recipe.warmup_steps=0")
    trainer = trainer_of(spec, tmp_path)
    if family == "Qwen2Moe":
        assert trainer.aux_loss_enabled
        Evaluator(spec, trainer.processing_class)(trainer.model)
        assert trainer.model.config.output_router_logits
    before = parameters(trainer)
    trainer.reward_funcs[0] = lambda completions, **_: [float(i % 2) for i in range(4)]
    train(trainer, 2)
    assert trainer.ledger.spent.rollouts == 8
    assert any((a != b).any() for a, b in zip(before, parameters(trainer), strict=True))
    # TRL's own head gives the log-probabilities that the model has, whatever caps and scales it.
    ids = torch.arange(3, 27).view(2, 12)
    ones = torch.ones_like(ids)
    trainer.model.eval()
    theirs = trainer.log_probabilities(
        {
            **{"prompt_ids": ids[:, :4], "prompt_mask": ones[:, :4]},
            **{"completion_ids": ids[:, 4:], "completion_mask": ones[:, 4:]},
        }
    )
    trainer.model.set_attn_implementation("eager")
    with torch.no_grad():
        logits = trainer.model(input_ids=ids, attention_mask=ones).logits[:, 3:-1]
    own = (logits.float() / trainer.temperature).log_softmax(-1)
    own = own.gather(2, ids[:, 4:, None])[..., 0]
    assert torch.allclose(theirs, own, atol=1e-4)


def test_capped_attention_scores_stay_capped(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from isosweep.training.policy import load_policy

    directory = save_family(tmp_path / "gemma", "Gemma2")
    spec = spec_of(directory, tmp_path, "recipe.beta=0.1")
    model, _ = load_policy(spec, str(directory))
    plain = AutoModelForCausalLM.from_pretrained(directory)
    ids = torch.arange(3, 27).view(2, 12)
    for each in (model, plain):
        # Scores far beyond the cap.
        each.config.attn_logit_softcapping = 1e-3
        for layer in each.model.layers:
            layer.self_attn.attn_logit_softcapping = 1e-3
            layer.self_attn.scaling = 100.0
    with torch.no_grad():
        capped = model(input_ids=ids).logits
        assert not torch.allclose(capped, plain(input_ids=ids).logits, atol=1e-3)
        plain.set_attn_implementation("eager")
        assert torch.allclose(capped, plain(input_ids=ids).logits, atol=1e-5)
    trainer = trainer_of(spec, tmp_path)
    assert trainer.ref_model.config._attn_implementation == "eager"


def test_no_code_beside_the_weights_is_executed(tmp_path: Path) -> None:
    from isosweep.training.policy import load_policy

    directory = save_family(tmp_path / "model", "Phi3")
    spec = spec_of(directory, tmp_path)
    ran = tmp_path / "ran"
    (directory / "modeling_own.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    own = {"AutoConfig": "modeling_own.C", "AutoModelForCausalLM": "modeling_own.M"}
    config = directory / "config.json"
    document = json.loads(config.read_text())
    # transformers has the family: its own code serves.
    config.write_text(json.dumps({**document, "auto_map": own}))
    load_policy(spec, str(directory))
    config.write_text(json.dumps({**document, "auto_map": own, "model_type": "own"}))
    ((what, _),) = missing_weights(spec.model)
    assert "isosweep executes no code of a model" in what
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_policy(spec, str(directory))
    assert not ran.exists()
