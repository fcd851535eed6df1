"""A holder may let go of a run: an entry of a new kind, which earlier software does not know."""

from __future__ import annotations

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the number keeps earlier software away from what it would call damaged."""
