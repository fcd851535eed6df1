"""What alembic runs for every upgrade, on the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context  # type: ignore[import-not-found, unused-ignore]

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
