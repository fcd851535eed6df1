"""What the steward decides about a data set after registering it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op  # type: ignore[import-not-found, unused-ignore]

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None

_ORDERS = 23


def upgrade() -> None:
    """Add the decisions; until now there were none."""
    nothing = "[" + ", ".join(['"0"'] * _ORDERS) + "]"
    for name, kind, value in (
        ("cap", sa.Float(), "0"),
        ("shares", sa.Text(), "{}"),
        ("policy_json", sa.Text(), "{}"),
        ("status", sa.String(16), "active"),
        ("added", sa.Text(), nothing),
    ):
        op.add_column("datasets", sa.Column(name, kind, nullable=False, server_default=value))
    op.execute("UPDATE datasets SET cap = epsilon")
