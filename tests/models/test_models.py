"""The built-in model's files, what the chat template is given, and what a model is known by."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.config.model import ModelConfig
from isosweep.errors import PreflightError, SettingError
from isosweep.models import builtin
from isosweep.models.prompts import prompt_tokens, require_prompts
from isosweep.models.weights import content_identity, missing_weights, weights
from isosweep.plan.spec import run_spec
from isosweep.tasks import Problem
from tests.conftest import make_config
from tests.models.families import save_family

pytestmark = pytest.mark.train


def test_the_shipped_files_are_the_model_of_the_plan_and_no_others_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_config().model
    assert missing_weights(model) == []
    assert weights(model) == str(builtin.DIRECTORY)
    assert content_identity(model) == [f"tiny-{builtin.SHA256[:12]}"]
    monkeypatch.setattr(builtin, "DIRECTORY", shutil.copytree(builtin.DIRECTORY, tmp_path / "tiny"))
    file = builtin.DIRECTORY / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    for damaged in (bytes(content), content[:1000], None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        with pytest.raises(PreflightError, match="reinstall isosweep"):
            builtin.builtin_model.__wrapped__()


def test_the_script_makes_the_shipped_files(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from tests.models.make_builtin import make_builtin

    # The last digits of the weights depend on the processor, more so with every step.
    make_builtin(tmp_path, steps=1)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        made, shipped = (json.loads((d / name).read_text()) for d in (tmp_path, builtin.DIRECTORY))
        assert made | {"transformers_version": ""} == shipped | {"transformers_version": ""}
    made, shipped = (load_file(d / "model.safetensors") for d in (tmp_path, builtin.DIRECTORY))
    assert {n: (v.shape, v.dtype) for n, v in made.items()} == {
        n: (v.shape, v.dtype) for n, v in shipped.items()
    }


# As Qwen3's: thinking is closed at once where it is switched off.
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>{% endif %}"
    "{% endif %}"
)
# As Llama 3's.
DATED = (
    "{% if date_string is not defined %}{% set date_string = strftime_now('%d') %}{% endif %}"
    "{{ date_string }}{{ messages[0].content }}"
)
PROBLEM = Problem(problem_id="p", prompt="1 + 1", answer="2")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_family(tmp_path_factory.mktemp("qwen2"), "Qwen2")


def model_at(directory: Path, **more: Any) -> ModelConfig:
    return replaced(
        make_config("model=local", f"model.path={directory}", "generation=transformers").model,
        **more,
    )


def test_the_template_is_given_arguments_and_a_system_prompt(saved: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(saved)
    tokenizer.chat_template = THINKING

    def read(**more: Any) -> str:
        text: str = tokenizer.decode(prompt_tokens(tokenizer, PROBLEM, model_at(saved, **more)))
        return text

    plain = read()
    assert plain == "<|im_start|>user\n1 + 1<|im_end|>\n<|im_start|>assistant\n"
    assert read(chat_template_kwargs={"enable_thinking": False}) == plain + "<think>\n\n</think>"
    assert read(chat_template_kwargs={"enable_thinking": True}) == plain
    assert read(system_prompt="Be brief.") == ("<|im_start|>system\nBe brief.<|im_end|>\n" + plain)
    # They make another run and another measurement.
    models = make_config("model=qwen3-4b"), make_config("model=qwen3-4b", "model.system_prompt=No.")
    sizes = {"num_generations": 2, "problems_per_batch": 1, "seed": 0, "micro_batch": 1}
    assert len({run_spec(each, **sizes).run_id for each in models}) == 2
    assert content_identity(models[0].model) != content_identity(models[1].model)


def test_a_model_is_known_by_its_content_not_by_its_place(saved: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(saved, tmp_path / "b")

    def identity(path: Path) -> str:
        return str(content_identity(model_at(saved, path=str(path))))

    known = [identity(saved)]
    assert identity(copied) == known[0]
    weights = copied / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    known.append(identity(copied))
    for name in ("chat_template.jinja", "generation_config.json", "added_tokens.json", "vocab.txt"):
        (copied / name).write_text("{}")
        known.append(identity(copied))
    assert len(set(known)) == 6
    (copied / "README.md").write_text("What it was trained on.")
    assert identity(copied) == known[-1]


def test_a_hub_model_is_loaded_from_its_snapshot(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    model = model_at(saved, path=None, source="someone/small", revision=None)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert weights(model) == "someone/small"
    pinned = replaced(model, revision="v1")
    ((what, remedy),) = missing_weights(pinned)
    assert f"someone/small --revision v1 in the local Hugging Face cache ({tmp_path})" in what
    assert "hf download someone/small --revision v1" in remedy
    repository = tmp_path / "models--someone--small"
    snapshot = repository / "snapshots" / "0123abc"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(saved)
    for name in ("main", "v1"):
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / name).write_text("0123abc")
    for each in (model, pinned, replaced(model, revision="0123abc")):
        assert weights(each) == str(snapshot)
        assert missing_weights(each) == []


@pytest.mark.parametrize(
    ("template", "more", "rule"),
    [
        (
            "{% for m in messages %}{% if m.role == 'system' %}"
            "{{ raise_exception('System role not supported') }}{% endif %}{% endfor %}",
            {"system_prompt": "Sort."},
            "fails on a message of system and user: TemplateError: System role not supported",
        ),
        ("{% for m in messages %}", {}, "fails on a message of user: TemplateSyntaxError"),
        ("{{ messages[0].content }}{{ eos_token }}", {}, "its prompts end with <|im_end|>"),
        ("{{ strftime_now('%Y') }}", {}, "puts the time into the prompt (strftime_now)"),
        (DATED, {}, "model.chat_template_kwargs={date_string: '26 Jul 2024'}"),
        (
            *(DATED + "{{ eos_token }}", {"chat_template_kwargs": {"date_string": "May"}}),
            "its prompts end with <|im_end|>",
        ),
    ],
)
def test_a_template_that_no_run_can_be_trained_with_is_refused_before_launch(
    template: str, more: dict[str, Any], rule: str, saved: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(saved, tmp_path / "model")
    (model / "chat_template.jinja").write_text(template)
    with pytest.raises(SettingError) as refused:
        require_prompts(make_config().generation, model_at(model, **more), [PROBLEM])
    assert f"model.path={model}: its" in str(refused.value)
    assert rule in str(refused.value)


def test_each_stop_has_to_be_one_token() -> None:
    config = make_config("generation.stop=['5','7']")
    require_prompts(config.generation, config.model, [])
    config = make_config("generation.stop=['5','75']")
    with pytest.raises(SettingError, match=r"generation.stop=.*'75' is 2 tokens of tiny"):
        require_prompts(config.generation, config.model, [])
