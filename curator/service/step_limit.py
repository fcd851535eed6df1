"""How large a step may be here: a run whose steps would all be refused is not opened or planned."""

from __future__ import annotations

from typing import Final

from curator.errors import MalformedRequest
from curator.mechanisms.base import ServedMechanism
from curator.service.context import Context

_ENVELOPE_BYTES: Final = 4096  # of a request, around its numbers


def check_step_size(context: Context, mechanism: ServedMechanism) -> None:
    """Refuse a run whose steps would all be refused for their size.

    Raises:
        MalformedRequest: If a step has too many rows, or too many bytes.
    """
    rows = mechanism.rows_per_step
    if rows is None:
        return
    bytes_of_row = 4 * mechanism.requirements().numbers_per_row + 8
    fitting = (context.max_request_bytes - _ENVELOPE_BYTES) // bytes_of_row
    most = min(context.max_samples, fitting)
    if rows > most:
        limit = "max_samples" if most == context.max_samples else "max_message_mib"
        msg = (
            f"a step of {rows} rows is too large here: at most {most} fit; send fewer (a recipe's "
            f"mechanism.num_samples), or ask the steward to raise limits.{limit}"
        )
        raise MalformedRequest(msg)
