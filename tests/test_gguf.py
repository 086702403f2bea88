"""Weights and tokenizer out of one GGUF file, written here as llama.cpp writes them."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants
from numpy.typing import NDArray

from isosweep import gguf as room
from isosweep.errors import SettingError
from isosweep.gguf import convert
from isosweep.models.weights import content_identity, missing_weights
from tests.conftest import make_config

# Hidden size, layers, heads, width of the MLP.
HIDDEN, LAYERS, HEADS, WIDE = 32, 1, 4, 64
TEMPLATE = (
    "{% for message in messages %}<s>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>{% endif %}"
)


def write_gguf(file: Path, *, merges: bool = True, without: str = "") -> NDArray[np.float32]:
    """A Llama of one layer with a byte-level BPE tokenizer; its embedding: (tokens, hidden)."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        [room._SAMPLE] * 3, vocab_size=400, min_frequency=1, special_tokens=["<s>", "</s>"]
    )
    trained.save_model(str(file.parent))
    vocabulary = sorted(trained.get_vocab().items(), key=lambda each: each[1])
    tokens = [token for token, _ in vocabulary]
    gguf = import_module("gguf")
    writer = gguf.GGUFWriter(file, "llama")
    for name, value in {
        **{"block_count": LAYERS, "context_length": 4096, "embedding_length": HIDDEN},
        **{"feed_forward_length": WIDE, "head_count": HEADS, "head_count_kv": HEADS},
        **{"layer_norm_rms_eps": 1e-5, "rope_freq_base": 10000.0, "vocab_size": len(tokens)},
        **{"tokenizer_model": "gpt2", "token_list": tokens, "chat_template": TEMPLATE},
        **{"bos_token_id": 0, "eos_token_id": 1},
    }.items():
        getattr(writer, f"add_{name}")(value)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if token[0] == "<" else normal for token in tokens])
    lines = (file.parent / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    writer.add_token_merges(lines if merges else lines[:5])
    draw = np.random.default_rng(0)
    shapes = {
        "token_embd.weight": (len(tokens), HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "output.weight": (len(tokens), HIDDEN),
    }
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.attn_{name}.weight": (HIDDEN, HIDDEN) for name in "qkv"}
        shapes |= {
            f"blk.{layer}.attn_output.weight": (HIDDEN, HIDDEN),
            f"blk.{layer}.attn_norm.weight": (HIDDEN,),
            f"blk.{layer}.ffn_norm.weight": (HIDDEN,),
            f"blk.{layer}.ffn_gate.weight": (WIDE, HIDDEN),
            f"blk.{layer}.ffn_up.weight": (WIDE, HIDDEN),
            f"blk.{layer}.ffn_down.weight": (HIDDEN, WIDE),
        }
    tensors = {name: draw.normal(size=size).astype(np.float32) for name, size in shapes.items()}
    for name, tensor in tensors.items():
        if name != without:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors["token_embd.weight"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(tmp_path / "assets"))


def test_a_file_becomes_weights_and_a_tokenizer_that_ends_where_the_file_says(
    tmp_path: Path,
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    embedding = write_gguf(tmp_path / "small.gguf")
    directory = convert(tmp_path / "small.gguf")
    model = AutoModelForCausalLM.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    np.testing.assert_array_equal(model.get_input_embeddings().weight.detach().numpy(), embedding)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("</s>", "</s>")
    assert model.generation_config.eos_token_id == 1
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "the answer"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<s>the answer</s><s>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert (ids[0], ids[-2:]) == (0, [1, 0])
    assert tokenizer.decode(ids) == text


def test_a_plan_reads_the_architecture_of_a_file_and_runs_share_by_its_content(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").mkdir()
    write_gguf(tmp_path / "small.gguf")
    (tmp_path / "a" / "other.gguf").write_bytes((tmp_path / "small.gguf").read_bytes())
    models = [
        make_config("model=local", f"model.path={tmp_path / name}", "hardware=cpu").model
        for name in ("small.gguf", "a/other.gguf")
    ]
    assert [model.name for model in models] == ["small", "other"]
    assert models[0].architecture.hidden_size == HIDDEN
    assert models[0].architecture.num_layers == LAYERS
    assert content_identity(models[0]) == content_identity(models[1])
    assert missing_weights(models[0]) == []


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:3000]), "transformers cannot read it"),
        (lambda file: file.write_text("hello"), "not a GGUF file"),
        (lambda file: write_gguf(file, merges=False), "with its merges, which are lost"),
        (
            lambda file: write_gguf(file, without="blk.0.ffn_down.weight"),
            "1 tensors of the model are not in it, as model.layers.0.mlp.down_proj.weight",
        ),
    ],
)
def test_an_unusable_file_is_refused_with_its_reason(
    tmp_path: Path, damage: Callable[[Path], object], fragment: str
) -> None:
    file = tmp_path / "small.gguf"
    write_gguf(file)
    damage(file)
    with pytest.raises(SettingError) as refused:
        convert(file)
    assert (refused.value.setting, refused.value.value) == ("model.path", file)
    assert fragment in refused.value.rule
    assert not list((tmp_path / "assets").rglob("model.safetensors"))
