"""The tables of schema version 1, as they were first released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op  # type: ignore[import-not-found, unused-ignore]

revision = "1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "meta",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False, unique=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
    )
    op.create_table(
        "datasets",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("epsilon", sa.Float, nullable=False),
        sa.Column("delta", sa.Float, nullable=False),
        sa.Column("relation", sa.String(32), nullable=False),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("facts_json", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("registered_at", sa.String(40), nullable=False),
    )
    _runs()
    op.create_table(
        "setup_payloads",
        sa.Column("run_id", sa.String(200), sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_table(
            "leases",
            sa.Column("holder", sa.String(200), primary_key=True),
            sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        )
    _append_only()
    op.execute("INSERT INTO meta (key, value) VALUES ('schema_version', '1')")


def _runs() -> None:
    texts = ("setup", "step", "setup_event_json", "step_event_json", "close_reason")
    op.create_table(
        "runs",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(200), nullable=False, unique=True),
        sa.Column("dataset", sa.String(200), sa.ForeignKey("datasets.name"), nullable=False),
        sa.Column("analyst", sa.String(200), nullable=False),
        sa.Column("mechanism", sa.String(64), nullable=False),
        sa.Column("parameters_json", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        *(
            sa.Column(name, sa.Integer, nullable=False)
            for name in ("num_steps", "used", "answered", "epoch")
        ),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("holder", sa.String(200), nullable=False),
        sa.Column("setup_begun", sa.Boolean, nullable=False),
        sa.Column("setup_digest", sa.String(64), nullable=False),
        sa.Column("opened_at", sa.String(40), nullable=False),
        sa.Column("closed_at", sa.String(40), nullable=False),
    )
    op.create_index("ix_runs_dataset", "runs", ["dataset"])
    op.create_index("ix_runs_analyst", "runs", ["analyst"])


def _append_only() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    if not sqlite:
        op.execute(
            "CREATE FUNCTION weir_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
        )
    for table in ("entries", "setup_payloads"):
        if not sqlite:
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
                f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION weir_append_only()"
            )
            continue
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
