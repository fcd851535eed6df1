"""Why an audit ends without a good verdict."""

from __future__ import annotations


class AuditFailed(Exception):
    """Something was proved that contradicts a claim, or the audit cannot be played."""
