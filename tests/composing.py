"""Hydra that composes each choice of the packaged groups once in a process: 0.12 s, then 0.01 s.

What is typed beside the groups it applies to a copy, as ever. A copy is unpickled, which takes a
fifth of copying.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigSource

from isosweep.config.refusals import config_directory

# A fork has those of the process that it comes from.
_LISTS: dict[Any, DefaultsList] = {}
_PICKLED: dict[Any, bytes] = {}


@contextmanager
def composed_once() -> Iterator[None]:
    """Within, Hydra reads no packaged file and composes no choice of groups twice."""
    Plugins.instance()
    files = SourcesRegistry.instance().resolve("file")
    read, list_of = files.load_config, defaults_list.create_defaults_list
    merge = ConfigLoaderImpl._compose_config_from_defaults_list
    packaged = str(config_directory())

    def once(key: Any, make: Any, *arguments: Any) -> Any:
        if key not in _PICKLED:
            _PICKLED[key] = pickle.dumps(make(*arguments))
        return pickle.loads(_PICKLED[key])

    def all_packaged(repo: IConfigRepository) -> bool:
        return {s.path for s in repo.get_sources() if s.scheme() == "file"} == {packaged}

    def load_config(self: ConfigSource, config_path: str) -> Any:
        if self.path != packaged:
            return read(self, config_path)
        return once((self.provider, config_path), read, self, config_path)

    def create_defaults_list(
        repo: IConfigRepository, *, overrides_list: list[Override], **how: Any
    ) -> DefaultsList:
        if not all_packaged(repo):
            return list_of(repo=repo, overrides_list=overrides_list, **how)
        values = Overrides(repo, overrides_list).config_overrides
        groups = [each for each in overrides_list if each not in values]
        key = tuple(each.input_line for each in groups), *how.items()
        if key not in _LISTS:
            _LISTS[key] = list_of(repo=repo, overrides_list=groups, **how)
        return replace(_LISTS[key], config_overrides=values)

    def compose(self: ConfigLoaderImpl, defaults: list[ResultDefault], repo: Any) -> Any:
        if not all_packaged(repo):
            return merge(self, defaults, repo)
        return once(repr(defaults), merge, self, defaults, repo)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "load_config", load_config)
        patch.setattr(config_loader_impl, "create_defaults_list", create_defaults_list)
        patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose)
        yield
