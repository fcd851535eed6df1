"""A list of runs, in words and as JSON; and the end of one."""

from __future__ import annotations

from typing import Any

from analyst.facts import RunList, RunSummary
from analyst.screen import table_text
from analyst.training.run_source import Curator

_HEADS = ("run", "data set", "mechanism", "opened", "charged", "state")
_TO_SECONDS = len("2026-01-01T00:00:00")


def runs_text(found: RunList) -> str:
    """Return a table of runs, and what to do with one that is open."""
    if not found.runs:
        return "no runs"
    lines = [table_text(_HEADS, [_cells(run) for run in found.runs])]
    if found.num_left_out:
        lines.append(f"and {found.num_left_out:,} older closed runs")
    if any(run.is_open for run in found.runs):
        lines.append(
            "An open run holds what its declared steps cost. Go on: 'analyst train --resume --out "
            "DIR'; give the rest back: 'analyst close RUN'."
        )
    return "\n".join(lines)


def runs_json(found: RunList) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "runs": [
            {
                "run_id": run.run_id,
                "dataset": run.dataset,
                "analyst": run.analyst,
                "mechanism": run.mechanism,
                "open": run.is_open,
                "steps": run.num_steps,
                "steps_charged": run.used_steps,
                "close_reason": run.close_reason,
                "opened_at": run.opened_at,
                "closed_at": run.closed_at,
                "one_release": run.one_release,
            }
            for run in found.runs
        ],
        "left_out": found.num_left_out,
    }


def close_run(barrier: Curator, run_id: str) -> tuple[bool, str]:
    """End a run, once: return whether it had ended before, and what to tell its owner."""
    listed = {run.run_id: run for run in barrier.runs().runs}
    known = listed.get(run_id)
    if known is None or known.is_open:
        barrier.resume_run(run_id).close()  # refuses an id that is nobody's
    if known is not None and known.is_open:
        return False, f"run {run_id} is closed; what it did not use went back to the budget"
    when = "before the runs that 'analyst runs' lists"
    if known is not None:
        when = f"{_moment(known.closed_at)} UTC ({known.close_reason.removeprefix('closed ')})"
    return True, f"run {run_id} was closed already, {when}: nothing was changed"


def _moment(at: str) -> str:
    return at[:_TO_SECONDS].replace("T", " ")


def _cells(run: RunSummary) -> tuple[str, ...]:
    return (
        run.run_id,
        run.dataset,
        run.mechanism,
        _moment(run.opened_at),
        "one release" if run.one_release else f"{run.used_steps:,} of {run.num_steps:,} steps",
        "open" if run.is_open else _closed(run.close_reason),
    )


def _closed(reason: str) -> str:
    return reason if reason.startswith("closed") else f"closed: {reason}"
