"""Which files a run leaves in its output directory, and so whose directory it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from analyst.errors import OutputRefused
from analyst.new_file import check_place
from analyst.os_words import naming

_OF_A_RUN: Final = frozenset(
    {
        "lock",
        "checkpoints",
        "metrics.jsonl",
        "samples",
        "certificate.json",
        "certificates",
        "federation.json",
        "embedding.safetensors",
    }
)


def check_run_folder(out: Path, *, is_new: bool) -> None:
    """Check that a directory is a run's own, before anything is written to it.

    A run that goes on has a checkpoint there; what else lies beside it is its owner's business.

    Args:
        out: Output directory; it need not exist.
        is_new: Whether a run is to begin in it.

    Raises:
        OutputRefused: If it lies in a curator's folder, or holds other files than a run's.
    """
    check_place(out)
    if not is_new or not out.is_dir() or any((out / "checkpoints").glob("checkpoint-*.json")):
        return
    with naming(out):
        others = sorted(path.name for path in out.iterdir() if path.name not in _OF_A_RUN)
    if others:
        message = f"{out} is in use: it holds {others[0]}, which is no file of a run"
        raise OutputRefused(message, "Choose another --out: a new directory, or an empty one.")
