"""Whose a file is: who could have written it, or could put another one in its place."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Links in a row that Linux follows (path_resolution(7)).
_MOST_LINKS = 40
_ACCESS_LIST = "system.posix_acl_access"
_WRITES = stat.S_IWGRP | stat.S_IWOTH


def others_may_write(path: Path) -> str | None:
    """Who besides this user and root may have written `path`: the file or directory on the way to
    it, its owner and mode, in words; None where nobody may.

    Everything that is passed on the way counts, links and what they lead to included. A group is no
    other user where it is this user's own, as umask 002 supposes; in a sticky directory, as /tmp,
    only what is this user's can be replaced by nobody else. Raises OSError where it cannot be seen.
    """
    me, passed = os.geteuid(), [*_passed(path)]
    file, _ = passed[-1]
    for place, status in passed:
        mode = stat.filemode(status.st_mode)
        if status.st_uid not in (me, 0):
            return f"{place} belongs to {_user(status.st_uid)} ({mode})"
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and place != file
        if stat.S_ISLNK(status.st_mode) or sticky or not status.st_mode & _WRITES:
            continue
        if status.st_mode & stat.S_IWOTH:
            return f"{place} may be written by everybody ({mode})"
        if _has_access_list(place):
            return f"{place} has an access list by which others may write it ({mode}+)"
        if not _is_private(status.st_gid, me):
            return f"{place} may be written by the group {_group(status.st_gid)} ({mode})"
    return None


def _passed(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every directory and link from / to `path`, and what is there, as the system resolves it."""
    at, links = Path("/"), 0
    left = [*reversed(path.absolute().parts[1:])]
    yield at, at.lstat()
    while left:
        name = left.pop()
        if name == "..":
            at = at.parent
            continue
        place = at / name
        status = place.lstat()
        yield place, status
        if not stat.S_ISLNK(status.st_mode):
            at = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = place.readlink()
        at = Path("/") if target.is_absolute() else at
        left += [part for part in reversed(target.parts) if part != "/"]


def _has_access_list(place: Path) -> bool:
    """Whether more than owner and group are named for it; the mode then shows the most of all."""
    try:
        return _ACCESS_LIST in os.listxattr(place)
    except (AttributeError, OSError):
        # No such attributes on this system.
        return False


@cache
def _is_private(group: int, user: int) -> bool:
    """Whether the group has this user's name and no other member, as useradd makes one for each."""
    try:
        own, known = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    others = {each.pw_uid for each in pwd.getpwall() if each.pw_gid == group} - {user}
    named = own.gr_name == known.pw_name and group == known.pw_gid
    return named and not others and set(own.gr_mem) <= {known.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
