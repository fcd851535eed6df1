"""What is computed in process: losses without privacy, parameters' gradients, published GS-WGAN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from analyst.generators.generator import ImageShape
from analyst.recipes import load_recipe
from benchmarks.papers import gs_wgan, loop
from benchmarks.papers.catalogue import Cell
from benchmarks.papers.gs_wgan import Critic, Published, sanitized, true_epsilon
from benchmarks.papers.losses import exact_gradient
from benchmarks.papers.work import OutOfTimeError, Work
from curator.privacy.batches import ImageSpace

SPACE = ImageSpace(channels=1, height=4, width=4, max_level=255, num_classes=2)


def _moved(recipe: Any, steps: int, rate: float) -> tuple[float, float]:
    """Return how far images are from records of their class, before and after descent."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 2
    centre = torch.tensor([-0.5, 0.5])
    records = centre[labels][:, None] + 0.05 * torch.randn((400, 16), generator=generator)
    gradient = exact_gradient(recipe, records, labels, SPACE)
    drawn = recipe.mechanism.draw_labels(2, generator)
    images = 0.1 * torch.randn((len(drawn), 16), generator=generator)

    def far(given: Tensor) -> float:
        return float((given - centre[drawn][:, None]).square().mean())

    start = far(images)
    for _ in range(steps):
        images = images - rate * gradient(images, drawn)
    return start, far(images)


def test_the_gradient_of_dp_sinkhorn_without_noise_leads_to_the_records() -> None:
    changes = {
        "mechanism.expected_batch_size": 40.0,
        "mechanism.l1_weight": 0.0,
        "mechanism.num_debias": 0,  # rows that meet records only through shared weights
    }
    start, end = _moved(load_recipe("dp-sinkhorn-mnist", changes), 100, 1.0)
    assert end < 0.1 * start


def test_the_gradient_of_dp_swd_without_noise_leads_to_the_records() -> None:
    changes = {
        "mechanism.expected_batch_size": 100.0,
        "mechanism.capacity": 160,
        "mechanism.num_projections": 50,
        "mechanism.clip_norm": 9.0,
        "mechanism.label_scale": 6.0,
    }
    start, end = _moved(load_recipe("dp-swd-mnist", changes), 100, 20.0)
    assert end < 0.3 * start


def test_other_losses_are_not_claimed() -> None:
    recipe = load_recipe("gs-wgan-mean-mnist", {})
    with pytest.raises(ValueError, match="not gs-wgan-mean"):
        exact_gradient(recipe, torch.zeros((4, 16)), torch.zeros(4, dtype=torch.int64), SPACE)


def test_the_whole_parameter_gradient_is_clipped_and_noised() -> None:
    mechanism = load_recipe("dp-sinkhorn-mnist", {"mechanism.noise_multiplier": 1.5}).mechanism
    model = nn.Linear(200, 500)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)
    loop.clip_and_noise(model, mechanism, torch.Generator().manual_seed(1))
    slopes = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
    spread = 2 * mechanism.clip_norm * 1.5
    # 100,500 draws: 6 standard errors of the deviation, and of the mean beside its clipped part
    assert abs(float(slopes.std()) / spread - 1) < 6 / (2 * len(slopes)) ** 0.5
    clipped = mechanism.clip_norm / len(slopes) ** 0.5
    assert abs(float(slopes.mean()) - clipped) < 6 * spread / len(slopes) ** 0.5


def test_each_image_is_clipped_and_noised_as_published() -> None:
    given = Published(noise_multiplier=0.5, clip_norm=2.0)
    slopes = torch.full((400, 1, 20, 20), 3.0)
    slopes[0] = 0.001  # a short one is not lengthened
    out = sanitized(slopes, given, torch.Generator().manual_seed(2))
    spread = 2 * given.clip_norm * given.noise_multiplier
    noise = out - slopes * (2.0 / slopes.flatten(1).norm(dim=1).clamp_min(2.0))[:, None, None, None]
    assert abs(float(noise.std()) / spread - 1) < 6 / (2 * noise.numel()) ** 0.5
    assert abs(float(noise[0].mean())) < 6 * spread / 20


def test_the_published_run_costs_what_the_accounting_says() -> None:
    assert true_epsilon(Published(), 1e-5) == "at least 329, at most 611"
    assert true_epsilon(Published(noise_multiplier=0.0), 1e-5) == "infinite"


def test_a_critic_scores_odd_sizes() -> None:
    shape = ImageShape(channels=3, height=9, width=7, num_classes=4)
    scores = Critic(shape, 4)(torch.zeros((5, 3, 9, 7)), torch.arange(5) % 4)
    assert scores.shape == (5,)


def _work(tmp_path: Path, kind: str, **settings: Any) -> Work:
    common = {"epsilon": 10.0, "delta": 1e-5, "count": 40, "classifiers": ["logistic"]}
    cell = Cell(
        table="t",
        paper="P",
        place="p",
        name="c",
        kind=kind,
        size="cpu",
        settings={**common, **settings},
    )
    return Work(cell=cell, seed=0, folder=tmp_path)


def test_a_cell_without_privacy_is_trained_measured_and_gone_on_with(tmp_path: Path) -> None:
    changes = {"training.steps": 3}
    work = _work(
        tmp_path,
        "loop",
        recipe="dp-sinkhorn-digits",
        gradients="bare",
        set=changes,
        distances=False,
        optimizer="rmsprop",
    )
    first = loop.make(work)
    assert first.epsilon is None
    assert first.true_epsilon == "infinite"
    assert first.values.keys() == {"logistic"}
    written = (tmp_path / "synthetic.npz").stat().st_mtime_ns
    assert loop.make(work) == first
    assert (tmp_path / "synthetic.npz").stat().st_mtime_ns == written


def test_published_gs_wgan_is_trained_and_its_norms_are_told(tmp_path: Path) -> None:
    sizes = {"num_critics": 4, "warm_start_steps": 1, "num_steps": 2, "num_samples": 4}
    work = _work(
        tmp_path,
        "gs-wgan",
        recipe="gs-wgan-mean-digits",
        published_run={**sizes, "critic_steps": 1, "critic_width": 2},
        distances=False,
    )
    made = gs_wgan.make(work)
    assert made.true_epsilon.startswith("at least")
    assert made.values["norm_low"] <= made.values["norm_median"] <= made.values["norm_high"]


def test_a_loop_stops_in_time(tmp_path: Path) -> None:
    changes = {"training.steps": 3}
    work = _work(tmp_path, "loop", recipe="dp-sinkhorn-digits", gradients="bare", set=changes)
    late = Work(cell=work.cell, seed=0, folder=tmp_path, deadline=0.0)
    with pytest.raises(OutOfTimeError):
        loop.make(late)
