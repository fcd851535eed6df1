"""The body of a request, read only after the door and only up to a size."""

from __future__ import annotations

from fastapi import Request

from curator.errors import MalformedRequest


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the whole body.

    Args:
        request: That went through the door.
        most_bytes: Beyond it nothing more is read.

    Raises:
        MalformedRequest: If it is too long.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise MalformedRequest
    return body
