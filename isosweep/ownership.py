"""Whose a file is: who could have written it."""

import grp
import os
import pwd
import stat
from functools import cache
from pathlib import Path

_ACCESS_LIST = "system.posix_acl_access"
_WRITES = stat.S_IWGRP | stat.S_IWOTH


def others_may_write(path: Path) -> str | None:
    """Who besides this user and root may have written `path`, a file or a directory: its owner and
    mode, in words; None where nobody may.

    Who may write the directory that it lies in could put a file of his own in its place, and that
    has his name. A group is no other user where it is this user's own, as umask 002 supposes.
    Raises OSError where it cannot be seen.
    """
    me, status = os.geteuid(), path.stat()
    mode = stat.filemode(status.st_mode)
    if status.st_uid not in (me, 0):
        return f"{path} belongs to {_user(status.st_uid)} ({mode})"
    if not status.st_mode & _WRITES:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"{path} may be written by everybody ({mode})"
    if _has_access_list(path):
        return f"{path} has an access list by which others may write it ({mode}+)"
    if not _is_private(status.st_gid, me):
        return f"{path} may be written by the group {_group(status.st_gid)} ({mode})"
    return None


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
