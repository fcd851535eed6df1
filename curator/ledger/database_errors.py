"""What stands between the curator and its PostgreSQL server, in words that end in what to do.

For the steward's own screen. PostgreSQL sends no SQLSTATE to a program that it does not let in, so
those cases are known by their English text; what is not known is shown as the server said it.
A password is in no text of libpq or of the server.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DBAPIError

ENCODE: Final = (
    "in a URL each of the signs @ : / ? # % of a password is written as %40 %3A %2F %3F %23 %25"
)
_URL: Final = "ledger.url in curator.toml or WEIR_LEDGER_URL"
_SERVER: Final = f"check that the server runs, and the host and port in {_URL}"
_PERMIT: Final = "let this role use the schema and make tables there, as the database's owner"

_BY_STATE: Final = {
    "42P01": (
        "the database has no ledger's tables",
        f"run 'curator init DIR', which makes them, or correct the database's name in {_URL}",
    ),
    "3F000": ("the database has no such schema", f"make it, or correct search_path in {_URL}"),
    "42501": ("this role may not do that in the database", _PERMIT),
    "53100": ("the disk of the server is full", "make room there, then run this again"),
    "53300": ("the server has too many connections", "end some, or raise its max_connections"),
    "57P03": ("the server is starting or stopping", "wait until it runs, then run this again"),
    "28P01": (
        "user or password is wrong, and the server does not say which",
        f"check that the role exists, and correct either in {_URL}; {ENCODE}",
    ),
}
_BY_TEXT: Final = (
    (("password authentication failed",), *_BY_STATE["28P01"]),
    (("no password supplied",), "the server asks for a password", f"put it into {_URL}; {ENCODE}"),
    (
        ("role ", "does not exist"),
        "the server knows no such role",
        f"make it with CREATE ROLE, or correct the user in {_URL}",
    ),
    (
        ("database ", "does not exist"),
        "the server has no such database",
        f"make it with CREATE DATABASE, or correct its name in {_URL}",
    ),
    (
        ("no pg_hba.conf entry", "no encryption"),
        "the server wants encryption (SSL), or does not let this user in from this machine",
        f"add ?sslmode=require to {_URL}; if it is there, add a line to the server's pg_hba.conf",
    ),
    (
        ("pg_hba.conf",),
        "the server does not let this user in from this machine",
        "add a line for it to the server's pg_hba.conf, then reload the server",
    ),
    (
        ("server does not support SSL",),
        "the URL wants encryption (SSL), and the server offers none",
        f"switch ssl on in the server, or change sslmode in {_URL}",
    ),
    (
        ("certificate",),
        "the server's certificate (SSL) cannot be verified",
        f"name its authority with sslrootcert in {_URL}, or correct the host there",
    ),
    (
        ("failed to resolve host",),
        "there is no host of that name",
        f"correct the host in {_URL}; {ENCODE}",
    ),
    (("could not translate host name",), "there is no host of that name", _SERVER),
    (("Connection refused",), "nothing listens at that host and port", _SERVER),
    (("No such file or directory",), "there is no such socket of a server", _SERVER),
    (("timeout expired",), "the host does not answer", f"{_SERVER}; a firewall may drop packets"),
    (("No route to host",), "the host cannot be reached", _SERVER),
    (("Network is unreachable",), "the host cannot be reached", _SERVER),
    (("starting up",), *_BY_STATE["57P03"]),
    (("shutting down",), *_BY_STATE["57P03"]),
    (("too many clients",), *_BY_STATE["53300"]),
    (
        ("invalid connection option",),
        "the URL has an option that PostgreSQL does not know",
        f"correct what follows the ? in {_URL}",
    ),
)  # fmt: skip


def in_database_words(problem: BaseException) -> str | None:
    """Return what PostgreSQL or the way to it refused.

    Args:
        problem: Any error; those that it was raised from are looked at too.

    Returns:
        Words that end in what to do; None if no PostgreSQL is behind it.
    """
    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, DBAPIError) and type(seen.orig).__module__.startswith("psycopg"):
            cause, next_step = _known(seen.orig)
            return f"PostgreSQL: {cause}; {next_step}"
        seen = seen.__cause__
    return None


def _known(refused: BaseException | None) -> tuple[str, str]:
    known = _BY_STATE.get(getattr(refused, "sqlstate", None) or "")
    if known is not None:
        return known
    text = " ".join(str(refused).split())
    for signs, cause, next_step in _BY_TEXT:
        if all(sign in text for sign in signs):
            return cause, next_step
    return text, _SERVER
