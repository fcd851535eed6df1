"""Libraries, clock and randomness: what does not depend on a folder."""

from __future__ import annotations

import ctypes
import os
import platform
import sqlite3
import ssl
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from curator.clock import utc_now
from curator.doctor.finding import Finding, fault, well
from curator.doctor.subject import Subject

REQUIRED: Final = (
    *("weir-dp", "torch", "numpy", "scipy", "grpcio", "protobuf", "pydantic", "cryptography"),
    *("sqlalchemy", "alembic", "fastapi", "uvicorn", "dp-accounting"),
)
OPTIONAL: Final = (
    *("numba", "llvmlite", "triton", "psycopg", "ray", "scikit-learn", "opentelemetry-sdk"),
)
_MADE: Final = datetime(2025, 1, 1, tzinfo=UTC)  # this program is younger, so a right clock is too
_TIME_ERROR: Final = 5  # of adjtimex: the clock is not synchronised
_KEPT: Final = {
    True: "a time service keeps it right",
    False: "no time service reports to the system (some never do): compare it with another clock",
    None: "whether a time service keeps it right is not known here: compare it with another clock",
}
_TIMEX_BYTES: Final = 512  # more than any system's struct timex


def versions(_: Subject) -> Finding:
    """Say which libraries are installed; those that the curator cannot do without must be."""
    found = {"python": platform.python_version()}
    found |= {name: _version(name) for name in (*REQUIRED, *OPTIONAL)}
    found |= {"sqlite": sqlite3.sqlite_version, "openssl": ssl.OPENSSL_VERSION}
    found["system"] = f"{platform.system()} {platform.release()}"
    words = ", ".join(f"{name} {text}" for name, text in found.items() if text)
    missing = [name for name in REQUIRED if not found[name]]
    if missing:
        return fault(
            f"not installed: {', '.join(missing)}; {words}",
            "install the curator with all it needs: pip install 'weir-dp[curator]'",
            versions=found,
        )
    return well(words, versions=found)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def clock(_: Subject) -> Finding:
    """Say what time it is here, and whether the system keeps the clock right."""
    now, is_kept = utc_now(), _is_synchronised()
    words = f"it is {now:%Y-%m-%d %H:%M:%S} UTC; {_KEPT[is_kept]}"
    facts: dict[str, object] = {"now": now.isoformat(), "synchronised": is_kept}
    if now < _MADE:
        return fault(
            f"{words}: before this program was made",
            "set the clock: credentials end and runs are closed by it",
            **facts,
        )
    return well(words, **facts)


def _is_synchronised() -> bool | None:
    """Ask the kernel, changing nothing; None where it does not say."""
    try:
        answer = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _TIME_ERROR


def entropy(_: Subject) -> Finding:
    """Draw from the system's randomness and from the source of the noise; both are forgotten."""
    from curator.sanitizer.entropy import OsEntropy

    if hasattr(os, "getrandom"):
        try:
            os.getrandom(32, os.GRND_NONBLOCK)
        except BlockingIOError:
            return fault(
                "the system's randomness is not ready yet",
                "wait until the machine has started, or give it a source (virtio-rng, rngd)",
            )
    try:
        OsEntropy().discrete_gaussian(1024)
    except Exception as problem:  # noqa: BLE001 - a cipher that is switched off, in any library's words
        return fault(
            f"noise cannot be drawn: {type(problem).__name__}",
            "noise needs ChaCha20: use a build of cryptography and OpenSSL that has it",
        )
    return well("getrandom is ready; noise by ChaCha20 keyed from it", source="getrandom")
