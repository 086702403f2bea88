"""Passwords and tokens in addresses: what is stored and shown of these has none."""

import re

# As SQLAlchemy reads them: all from the first colon after the user to the @, slashes among it. A
# server's address ends at its first slash, and may have a port and an @ after that.
_PASSWORD = re.compile(
    r"((?<!http)(?<!https)://[^\s:/]*):[^@\n]*(?:@[^@/\s]*)*@|(https?://[^\s:/@]*):[^@/\s]*@"
)
# What drivers take as options of an address.
_OPTION = re.compile(r"(?<=[?&])((?:ssl)?passw(?:or)?d)=[^&\s]*&?", re.IGNORECASE)
# Scheme and host of an address, with its user, and all that comes after.
_ADDRESS = re.compile(r"(https?://[^\s/?#'\"]*)([^\s'\"]*)", re.IGNORECASE)
# Stands for what was taken out of an address.
_TAKEN = "/***"
# How drivers ask for one that is not there.
_ASKED_FOR = re.compile(r"no password|password authentication|access denied|using password", re.I)


def without_password(url: str) -> str:
    """The address as it is stored."""
    return _OPTION.sub("", _PASSWORD.sub(r"\1\2@", url)).rstrip("?&")


def hidden(text: str) -> str:
    """Any text, with *** in the place of passwords in its addresses."""
    return _OPTION.sub(r"\1=***", _PASSWORD.sub(r"\1\2:***@", text))


def without_tokens(action: str) -> str:
    """What `launcher.on_finish` is stored and shown as: of an address in it, which may be a secret,
    the host alone. One that names a variable of the environment (`$NAME`) is kept, but for a
    password: what is secret of it is not there."""
    return _PASSWORD.sub(r"\1\2@", _ADDRESS.sub(_host, action))


def addresses(action: str) -> list[str]:
    """The addresses in it, whole."""
    return [found[0] for found in _ADDRESS.finditer(action)]


def lacks_token(action: str) -> bool:
    """Whether an address was taken out of it, so that it cannot be used."""
    return _TAKEN in action


def _host(address: re.Match[str]) -> str:
    kept = "$" in address[0] or address[2] in ("", "/")
    return address[0] if kept else address[1] + _TAKEN


def password_remedy(url: str, said: str) -> str | None:
    """What to do where a database at `url`, given without a password, asks for one; else None."""
    if without_password(url) != url or not _ASKED_FOR.search(said):
        return None
    return (
        "its password in PGPASSWORD or ~/.pgpass (PostgreSQL), or the address typed again with it: "
        "no file of isosweep holds it"
    )
