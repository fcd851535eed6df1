"""The processor, and what the libraries that compute make of it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Final

from curator.doctor.finding import Finding, well
from curator.doctor.subject import Subject

STEERING: Final = (
    *("ATEN_CPU_CAPABILITY", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_JIT"),
    *("OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "MKL_ENABLE_INSTRUCTIONS", "CUDA_VISIBLE_DEVICES"),
)
"""Variables of the environment that change how numbers are computed."""

_INSTRUCTIONS: Final = (
    *("sse2", "sse4_2", "avx", "fma", "f16c", "avx2", "avx512f", "avx512bw", "avx512vl"),
    *("avx512_bf16", "amx_tile", "asimd", "sve", "sve2"),
)
_CPUINFO: Final = Path("/proc/cpuinfo")


def processor(_: Subject) -> Finding:
    """Say what computes here, and what the libraries make of it."""
    name, flags = _cpuinfo()
    present = [one for one in _INSTRUCTIONS if one in flags]
    steering = {key: os.environ[key] for key in STEERING if key in os.environ}
    words = [
        f"{name}, {os.cpu_count()} cores, {platform.machine()}",
        f"instructions {' '.join(present) or 'unknown'}",
        f"ATen {_aten_capability()}, numba {_numba_target()}",
    ]
    words += [f"{key}={value}" for key, value in steering.items()]
    return well(
        "; ".join(words),
        name=name,
        cores=os.cpu_count(),
        machine=platform.machine(),
        instructions=present,
        aten=_aten_capability(),
        numba=_numba_target(),
        environment=steering,
    )


def _cpuinfo() -> tuple[str, set[str]]:
    """Return the processor's name and what it can do, as Linux tells it."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in _CPUINFO.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    name = found.get("model name") or platform.processor() or "unknown processor"
    return name, set((found.get("flags") or found.get("Features") or "").split())


def _aten_capability() -> str:
    try:
        import torch
    except ImportError:
        return "not installed"
    return str(torch.backends.cpu.get_cpu_capability())


def _numba_target() -> str:
    """Return the processor that numba compiles for."""
    try:
        from llvmlite.binding import get_host_cpu_name
        from numba.core import config
    except ImportError:
        return "not installed"
    return str(getattr(config, "CPU_NAME", None) or get_host_cpu_name())
