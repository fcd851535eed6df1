"""Which body would run the Sinkhorn updates here, how exact each one is, and how fast."""

from __future__ import annotations

import statistics
import time
from typing import Final

import torch

from curator.divergences.agreement import PUBLISHED
from curator.divergences.backend import (
    Backend,
    BackendUnavailable,
    Verdict,
    body_solver,
    check_body,
    compiled_body,
    decide,
)
from curator.divergences.device import DeviceUnavailable, choose_device, compute_device
from curator.doctor.finding import Finding, attention, fault, well
from curator.doctor.subject import Subject

_REPEATS: Final = 5
_REPORT: Final = "plain torch serves, right but slower; send these lines to whoever can mend it"


def bodies(subject: Subject) -> Finding:
    """Compare each body with float64 and time it, as `curator serve` would have it.

    Args:
        subject: Its configuration says which one is wanted, and where it computes.
    """
    compute = subject.config.compute
    if compute.threads:
        torch.set_num_threads(compute.threads)
    try:
        choose_device(compute.device)
    except DeviceUnavailable as problem:
        return fault(str(problem), "set compute.device in curator.toml to what is there")
    verdicts = {body: check_body(body) for body in (compiled_body(), Backend.TORCH)}
    measured = [_measured(body, verdict) for body, verdict in verdicts.items()]
    words = "; ".join(str(one["words"]) for one in measured)
    try:
        choice = decide(compute.solver, verdicts.__getitem__)
    except BackendUnavailable as problem:
        return fault(
            f"{problem}; {words}",
            "set compute.solver = 'auto' in curator.toml",
            chosen=None,
            bodies=measured,
        )
    found = f"{choice.body} serves on {compute_device()}; {words}"
    facts: dict[str, object] = {"chosen": choice.facts, "bodies": measured}
    if not choice.reason:
        return well(found, **facts)
    if choice.refusal is not None and "not installed" in choice.refusal.reason:
        return attention(found, f"pip install {choice.refused}: several times as fast", **facts)
    return attention(found, _REPORT, **facts)


def _measured(body: Backend, verdict: Verdict) -> dict[str, object]:
    """Return what is known of one body, whether or not it may be used."""
    seconds = None if verdict.error is None else _seconds(body)
    return {
        "body": str(body),
        "error": verdict.error,
        "allowed": verdict.allowed,
        "seconds": seconds,
        "reason": verdict.reason,
        "cause": verdict.cause,
        "words": _words(body, verdict, seconds),
    }


def _words(body: Backend, verdict: Verdict, seconds: float | None) -> str:
    if verdict.error is None or seconds is None:
        return f"{body} cannot be used: {verdict.cause or verdict.reason}"
    said = (
        f"{body} differs from float64 by {verdict.error:.1e} of the largest gradient "
        f"(allowed {verdict.allowed:.0e}), {1000 * seconds:.1f} ms a step of MNIST's size"
    )
    return f"{said}, refused" if verdict.reason else said


def _seconds(body: Backend) -> float:
    """Return the median time of the gradients of one step of the published size."""
    device = compute_device()
    first, second = PUBLISHED.clouds(torch.float32, device)
    solver = body_solver(body, PUBLISHED.cost, PUBLISHED.schedule)
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        solver.first_gradient(first, second)
        solver.self_gradient(first).cpu()  # waits for a card
        times.append(time.perf_counter() - started)
    return statistics.median(times)
