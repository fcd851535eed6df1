"""Run the revisions that a ledger lacks; alembic is imported only when there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, update
from sqlalchemy.exc import SQLAlchemyError

from curator.errors import LedgerUnavailable
from curator.ledger import schema

FOLDER: Final = Path(__file__).resolve().parent


def upgrade(
    connection: Connection,
    written: str,
    versions: Path = FOLDER / "versions",
    until: str = "head",
) -> None:
    """Bring the tables from version `written` to the present one, in the caller's transaction.

    Raises:
        LedgerUnavailable: If that fails; the transaction must be rolled back, which leaves the
            ledger as it was.
    """
    try:
        from alembic import command  # type: ignore[import-not-found, unused-ignore]
        from alembic.config import Config  # type: ignore[import-not-found, unused-ignore]
        from alembic.util import CommandError  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        msg = "this ledger needs an upgrade, for which alembic must be installed"
        raise LedgerUnavailable(msg) from error
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("version_locations", str(versions).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    try:
        command.stamp(config, written)
        command.upgrade(config, until)
    except (CommandError, SQLAlchemyError, ValueError) as error:
        msg = f"the ledger could not be upgraded from schema version {written}"
        raise LedgerUnavailable(msg) from error
    row = {"value": str(schema.SCHEMA_VERSION) if until == "head" else until}
    connection.execute(update(schema.meta).where(schema.meta.c.key == "schema_version").values(row))
