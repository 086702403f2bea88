"""Texts that end an answer, as tokens of a model."""

import pytest

from isosweep.errors import SettingError
from isosweep.models.stops import require_stops
from tests.conftest import make_config


def test_each_stop_has_to_be_one_token() -> None:
    config = make_config("generation.stop=['5','7']")
    require_stops(config.generation, config.model)
    config = make_config("generation.stop=['5','75']")
    with pytest.raises(SettingError, match=r"generation.stop=.*'75' is 2 tokens of tiny"):
        require_stops(config.generation, config.model)
