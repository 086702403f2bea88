"""What the chat template is given reaches the model, and is part of a run's identity."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.base import replaced
from isosweep.config.model import ModelConfig
from isosweep.errors import SettingError
from isosweep.models.prompts import prompt_tokens, require_prompts
from isosweep.models.weights import content_identity, missing_weights
from isosweep.plan.spec import run_spec
from isosweep.tasks import Problem
from tests.conftest import make_config, refused
from tests.models.checkpoints import save_family

pytestmark = pytest.mark.train
# As Qwen3's: thinking is closed at once where it is switched off.
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>{% endif %}"
    "{% endif %}"
)
DATED = (
    "{% if date_string is not defined %}{% set date_string = strftime_now('%d') %}{% endif %}"
    "{{ date_string }}{{ messages[0].content }}"
)


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
    problem = Problem(problem_id="p", prompt="1 + 1", answer="2")

    def read(**more: Any) -> str:
        text: str = tokenizer.decode(prompt_tokens(tokenizer, problem, model_at(saved, **more)))
        return text

    plain = read()
    assert read(chat_template_kwargs={"enable_thinking": False}) == plain + "<think>\n\n</think>"
    assert read(chat_template_kwargs={"enable_thinking": True}) == plain
    assert read(system_prompt="Be brief.") == ("<|im_start|>system\nBe brief.<|im_end|>\n" + plain)


def test_they_make_another_run_and_another_measurement() -> None:
    plain = make_config("model=qwen3-4b")
    told = make_config("model=qwen3-4b", "model.chat_template_kwargs={enable_thinking: false}")
    sizes = {"num_generations": 2, "problems_per_batch": 1, "seed": 0, "micro_batch": 1}
    assert run_spec(plain, **sizes).run_id != run_spec(told, **sizes).run_id
    assert content_identity(plain.model) != content_identity(told.model)


def test_a_hub_model_is_loaded_from_its_snapshot(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    from isosweep.models.weights import weights

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
            ("model.system_prompt=Sort.",),
            "fails on a message of system and user: TemplateError: System role not supported",
        ),
        ("{% for m in messages %}", (), "fails on a message of user: TemplateSyntaxError"),
        ("{{ messages[0].content + 1 }}", (), "fails on a message of user: TypeError"),
        ("{{ messages[0].content }}{{ eos_token }}", (), "its prompts end with <|im_end|>"),
        ("{{ strftime_now('%Y') }}", (), "puts the time into the prompt (strftime_now)"),
        # As Llama 3's.
        (DATED, (), "model.chat_template_kwargs={date_string: '26 Jul 2024'}"),
        (
            *(DATED + "{{ eos_token }}", ("model.chat_template_kwargs={date_string: May}",)),
            "its prompts end with <|im_end|>",
        ),
    ],
)
def test_a_template_that_no_run_can_be_trained_with_is_refused_before_launch(
    template: str, more: tuple[str, ...], rule: str, saved: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(saved, tmp_path / "model")
    (model / "chat_template.jinja").write_text(template)
    local = ("model=local", f"model.path={model}", "generation=transformers", "hardware=cpu")
    sizes = ("recipe=tiny", "grid=tiny", "task=sort", "budget=[384]", "budget_unit=rollouts")
    said = refused(*local, *sizes, *more, cwd=tmp_path)
    assert f"model.path={model}: its" in said
    assert rule in said


def test_each_stop_has_to_be_one_token() -> None:
    config = make_config("generation.stop=['5','7']")
    require_prompts(config.generation, config.model, [])
    config = make_config("generation.stop=['5','75']")
    with pytest.raises(SettingError, match=r"generation.stop=.*'75' is 2 tokens of tiny"):
        require_prompts(config.generation, config.model, [])
