"""The built-in model: what is shipped is whole, and can be made again."""

import json
import shutil
from pathlib import Path

import pytest

from isosweep.errors import PreflightError
from isosweep.models import builtin
from isosweep.models.weights import content_identity, missing_weights, weights
from tests.conftest import make_config


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


@pytest.mark.train
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
