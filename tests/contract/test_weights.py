"""A model is trained only if every tensor that it needs is in its files, under its name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.surface import isosweep, refused

pytestmark = pytest.mark.train

SIZES: dict[str, Any] = {
    **{"vocab_size": 48, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8},
    **{"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0},
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True},
    "qwen2": {"tie_word_embeddings": False},
    "qwen3": {"tie_word_embeddings": True},
    "gemma": {},
    "mistral": {"tie_word_embeddings": False, "sliding_window": None},
    "phi3": {"tie_word_embeddings": False},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 8},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# The tokenizers made here have no template: what is asked of one is missing of every model, so that
# also a whole one is refused before anything starts.
TEMPLATE = ("model.system_prompt=short", "a chat template in")


def save(directory: Path, family: str = "qwen2", **more: Any) -> Path:
    """A random model of `family`, and a tokenizer of characters; `more` is for save_pretrained."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", *"0123456789abcdefghijklmnopqrstuvwxyz=> ,."]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    config = AutoConfig.for_model(family, **SIZES, **FAMILIES[family])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(directory, **more)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>"
    ).save_pretrained(directory)
    return directory


def rename(directory: Path, name: Callable[[str], str | None]) -> Path:
    """The directory, each of whose tensors has another name, or is dropped (None)."""
    from safetensors.torch import load_file, save_file

    for file in directory.glob("*.safetensors"):
        named = {name(old): tensor for old, tensor in load_file(file).items()}
        save_file({k: v for k, v in named.items() if k}, file, metadata={"format": "pt"})
    if (directory / INDEX).exists():
        index = json.loads((directory / INDEX).read_text())
        places = {name(old): file for old, file in index["weight_map"].items()}
        index["weight_map"] = {new: file for new, file in places.items() if new}
        (directory / INDEX).write_text(json.dumps(index))
    return directory


def run(model: Path, *overrides: str) -> tuple[str, ...]:
    """The command that trains it on sums, in a second or two a run."""
    return (
        *("model=local", f"model.path={model}", "recipe=tiny", "grid=tiny", "hardware=cpu"),
        *("generation=transformers", "tracking=none", "budget_unit=rollouts", "budget=[256]"),
        *("grid.num_generations=[4]", "grid.problems_per_batch=[4]", "grid.seeds=[0]"),
        *("task=sort", *overrides),
    )


def missing(model: Path, cwd: Path) -> str:
    """What is said to be missing, beside the template."""
    setting, lacks = TEMPLATE
    said = refused(*run(model, setting), cwd=cwd)
    assert said.startswith("isosweep: nothing was launched:")
    return "\n".join(
        line for line in said.splitlines() if "missing: " in line and lacks not in line
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_any_family_is_whole_or_what_is_not_there_is_named(
    family: str, tmp_path: Path
) -> None:
    whole = save(tmp_path / "one", family)
    parts = save(tmp_path / "several", family, max_shard_size=3000)
    assert len(list(parts.glob("*.safetensors"))) > 2
    for model in (whole, parts):
        assert missing(model, tmp_path) == ""
        rename(model, lambda name: None if "1.input_layernorm" in name else name)
        said = missing(model, tmp_path)
        assert "config.json: missing model.layers.1.input_layernorm.weight" in said
    shutil.rmtree(whole)
    rename(save(whole, family), lambda name: f"module.{name}")
    assert "a wrapper put 'module.' before the names" in missing(whole, tmp_path)


def test_names_that_transformers_finds_are_no_others(tmp_path: Path) -> None:
    inner = rename(save(tmp_path / "inner", "llama"), lambda name: name.removeprefix("model."))
    assert missing(inner, tmp_path) == ""
    headless = rename(save(tmp_path / "headless"), lambda name: None if "lm_head" in name else name)
    assert "config.json: missing lm_head.weight" in missing(headless, tmp_path)
    name = "model.layers.1.mlp.experts.2.gate_proj.weight"
    expert = rename(save(tmp_path / "expert", "qwen2_moe"), lambda n: None if n == name else n)
    assert "of the experts' tensors, which are put together" in missing(expert, tmp_path)
    deeper = rename(save(tmp_path / "deeper"), lambda name: name.replace("layers.1.", "layers.2."))
    assert "left over model.layers.2." in missing(deeper, tmp_path)


def test_an_adapter_is_never_put_on_top_of_weights_unasked(tmp_path: Path) -> None:
    model = save(tmp_path / "model")
    (model / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    said = missing(model, tmp_path)
    assert f"one model in {model}: its adapter (adapter_config.json)" in said
    for name in ("config.json", SINGLE):
        (model / name).unlink()
    said = refused(*run(model), cwd=tmp_path)
    assert "is an adapter, and not a whole model. Nearest choice that works: the whole" in said


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"[]", "it holds no JSON object"),
        ("config.json", LFS, "it is a Git LFS pointer: `git lfs pull`"),
        (SINGLE, LFS, "it is a Git LFS pointer: `git lfs pull`"),
        ("tokenizer.json", b"[]", "it holds no JSON object"),
        ("tokenizer_config.json", b"[]", "a chat template in"),
        ("generation_config.json", b"[1, 2]", "a chat template in"),
    ],
)
def test_a_file_of_a_model_that_holds_something_else_is_named(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    model = save(tmp_path / "model")
    (model / name).write_bytes(content)
    assert message in refused(*run(model, TEMPLATE[0]), cwd=tmp_path)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: cut(d / SINGLE, 100), "invalid header length"),
        (lambda d: cut(d / SINGLE, -5), "file not fully covered"),
        (
            lambda d: edit(d / "config.json", lambda c: c.update(vocab_size=64)),
            "lm_head.weight has shape [48, 16], and config.json implies [64, 16]",
        ),
        (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json (or"),
        (
            lambda d: edit(d / "tokenizer.json", lambda t: t["added_tokens"][0].update(id=48)),
            "it has token 48, and vocab_size is 48",
        ),
        (lambda d: (d / "model-00002-of-00010.safetensors").unlink(), "model-00002-of-00010"),
        (
            lambda d: edit(d / INDEX, lambda i: i["weight_map"].pop("lm_head.weight")),
            "missing lm_head.weight",
        ),
    ],
)
def test_a_file_of_a_model_that_does_not_fit_the_others_is_named(
    damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    sharded = message.startswith(("model-", "missing"))
    more: dict[str, Any] = {"max_shard_size": 3000} if sharded else {}
    model = save(tmp_path / "model", **more)
    damage(model)
    assert message in refused(*run(model, TEMPLATE[0]), cwd=tmp_path)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("num_hidden_layers", None, "num_hidden_layers is null, and must be a positive integer"),
        ("hidden_size", "16", 'hidden_size is "16", and must be a positive integer'),
        ("head_dim", "8", "one of its values cannot be read"),
        ("sliding_window", [], "a chat template in"),
        ("max_position_embeddings", "x", "one of its values cannot be read"),
    ],
)
def test_a_value_of_config_json_that_is_none_is_refused_in_words(
    setting: str, value: object, message: str, tmp_path: Path
) -> None:
    model = save(tmp_path / "model", "mistral")
    document = json.loads((model / "config.json").read_text())
    document |= {"sliding_window": 4, setting: value}
    (model / "config.json").write_text(json.dumps(document))
    assert message in refused(*run(model, TEMPLATE[0]), cwd=tmp_path)


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("models--org--tiny/snapshots/0123abcd", "models--org--tiny"),
        ("hub/models--org--tiny/snapshots/0123abcd", "."),
        ("out/checkpoint-100", "out"),
    ],
)
def test_the_model_in_a_directory_is_named_as_the_nearest_choice(
    place: str, more: str, tmp_path: Path
) -> None:
    model = save(tmp_path / place)
    if place.endswith("100"):
        shutil.copytree(model, model.with_name("checkpoint-20"))
    said = refused(*run(tmp_path / more), cwd=tmp_path)
    assert f"Nearest choice that works: model.path={model}\n" in said
    said = refused(*run(model / SINGLE), cwd=tmp_path)
    assert f"Nearest choice that works: model.path={model}\n" in said
    for file in (model / "config.json", model / "tokenizer.json"):
        shutil.copy(file, tmp_path / more)
    assert f"{INDEX} in {tmp_path / more}, as in {model}" in missing(tmp_path / more, tmp_path)


LAB = """
import pathlib, random
from isosweep.tasks import Problem

def made(spoiled=None):
    texts = sorted({"".join(random.Random(i).choices("0123456789", k=3)) for i in range(200)})
    problems = [Problem(problem_id=t, prompt=f"{t}=", answer=min(t)) for t in texts]

    def score(problems, completions):
        later = pathlib.Path(spoiled or "", "later")
        if spoiled and later.exists():
            later.replace(pathlib.Path(spoiled, "model.safetensors"))
        wrong = 0.0 if spoiled else None
        return [1.0 if c == p.answer else wrong for p, c in zip(problems, completions)]

    return problems, score
"""


def lab(model: Path, cwd: Path, **parameters: str) -> tuple[str, ...]:
    """The command that trains it on a task of one's own."""
    (cwd / "lab.py").write_text(LAB)
    given = ", ".join(f"{name}: {value}" for name, value in parameters.items())
    return run(
        model,
        *("task=custom", "task.custom.function=lab:made", f"task.custom.parameters={{{given}}}"),
        *("task.prompt_tokens=6", "task.completion_tokens=4", "task.max_completion_tokens=4"),
        *(
            "task.num_train_problems=32",
            "task.num_eval_problems=16",
            f"task.custom.directory={cwd}",
        ),
    )


def test_a_worker_refuses_weights_that_have_changed_since_and_is_not_tried_again(
    tmp_path: Path,
) -> None:
    model = save(tmp_path / "model")
    shutil.copy(model / SINGLE, model / "whole")
    rename(model, lambda name: f"_orig_mod.{name}")
    (model / SINGLE).rename(model / "later")
    (model / "whole").rename(model / SINGLE)
    # Scores put other weights in their place, before the last run loads them at the latest.
    more = ("grid.seeds=[0,1]", "launcher.max_parallel=1")
    done = isosweep(*lab(model, tmp_path, spoiled=str(model)), *more, cwd=tmp_path, check=False)
    failed = failures(done.stdout)[-1]
    assert "agree with its config.json: missing" in failed
    assert "a wrapper put '_orig_mod.' before the names" in failed


@pytest.mark.parametrize("processes", [1, 2])
def test_a_score_that_is_no_number_is_refused_once(processes: int, tmp_path: Path) -> None:
    model = save(tmp_path / "model")
    more = (f"hardware.devices_per_run={processes}", "hardware.interconnect_bandwidth=1e9")
    done = isosweep(*lab(model, tmp_path), *more, cwd=tmp_path, check=False)
    assert "its score returned None" in failures(done.stdout)[-1]


def failures(output: str) -> list[str]:
    """Why runs have failed, none of which was tried again."""
    failed = [line for line in output.splitlines() if line.startswith("failed: ")]
    assert not [line for line in failed if "tried" in line]
    return failed
