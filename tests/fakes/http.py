"""Ask an ASGI application without a server."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI


def ask(
    app: FastAPI,
    path: str,
    *,
    method: str = "GET",
    token: str | None = None,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
) -> httpx.Response:
    """Return the answer of one request."""
    sent = {} if token is None else {"Authorization": f"Bearer {token}"}
    sent |= headers or {}

    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://curator") as client:
            return await client.request(method, path, headers=sent, content=content)

    return asyncio.run(one())
