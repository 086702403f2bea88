"""`format=json` is a document, or refused with the file that holds one."""

from typing import get_args

import pytest

from isosweep.config.sweep import Mode
from isosweep.errors import SettingError
from isosweep.modes.dispatch import JSON_MODES, prepare
from tests.conftest import make_config


@pytest.mark.parametrize("mode", sorted(set(get_args(Mode)) - set(JSON_MODES)))
def test_a_mode_that_prints_no_document_refuses_to(mode: str) -> None:
    with pytest.raises(SettingError, match="format=json: is for mode=status, next, ") as caught:
        prepare(make_config(f"mode={mode}", "format=json"))
    if mode in ("plan", "analyse", "compare"):
        assert ".json" in caught.value.nearest
