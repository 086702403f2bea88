"""Whose a file is: who else could have written it."""

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from isosweep import ownership
from isosweep.ownership import others_may_write

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")


@pytest.fixture(autouse=True)
def _no_memory() -> None:
    ownership._is_private.cache_clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a" / "config.json"
    path.parent.mkdir(mode=0o755)
    path.write_text("{}")
    path.chmod(0o644)
    return path


def test_what_this_user_alone_may_write_is_nobody_elses(file: Path) -> None:
    assert others_may_write(file) is None
    assert others_may_write(Path("/etc/passwd")) is None


def test_a_file_of_everybody_is_named_and_the_directories_above_it_are_not_asked(
    file: Path,
) -> None:
    file.parent.chmod(0o2777)
    assert others_may_write(file) is None
    file.chmod(0o666)
    assert others_may_write(file) == f"{file} may be written by everybody (-rw-rw-rw-)"


@as_root
def test_another_users_file_is_named_also_behind_a_link(file: Path, tmp_path: Path) -> None:
    os.chown(file, 65534, 65534)
    assert "config.json belongs to nobody (-rw-r--r--)" in str(others_may_write(file))
    link = tmp_path / "link"
    link.symlink_to("a/../a/config.json")
    assert f"{link} belongs to nobody" in str(others_may_write(link))


def test_a_group_of_ones_own_is_nobody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me, group = pwd.getpwuid(os.geteuid()), file.stat().st_gid
    file.chmod(0o664)

    def known(name: str, members: list[str], *others: int) -> str | None:
        ownership._is_private.cache_clear()
        users = [SimpleNamespace(pw_name=me.pw_name, pw_uid=me.pw_uid, pw_gid=group)]
        users += [SimpleNamespace(pw_name="x", pw_uid=uid, pw_gid=group) for uid in others]
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: users[0])
        monkeypatch.setattr(pwd, "getpwall", lambda: users)
        monkeypatch.setattr(
            grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=name, gr_mem=members)
        )
        return others_may_write(file)

    assert known(me.pw_name, []) is None
    assert known(me.pw_name, [me.pw_name]) is None
    shared = f"{file} may be written by the group users (-rw-rw-r--)"
    # One that has every user of the site, who are no members by the books.
    assert known("users", []) == shared
    assert known(me.pw_name, ["mallory"]) is not None
    assert known(me.pw_name, [], 4711) is not None


def test_an_access_list_counts_as_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o664)
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"])
    assert "has an access list" in str(others_may_write(file))
