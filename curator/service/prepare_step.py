"""Get ready for a run's next step while its analyst is at work on the last answer."""

from __future__ import annotations

from contextlib import suppress

from curator.service.service import Service


def prepare_step(service: Service, run_id: str) -> None:
    """Draw noise and the sample of the next step; nothing private is read, nothing is charged."""
    service.computing.draw_noise_ahead()
    live = service.runs.live.get(run_id)
    if live is None or live.used >= live.num_steps:
        return
    samples = live.mechanism.requirements().samples
    if samples is not None and samples.before_all is None:
        with suppress(Exception):  # the answer is on its way, and the next step can do without
            live.records.draw_ahead(samples.rate, samples.capacity, service.computing.noise)
