"""GS-WGAN as published, in process and for comparison only: its epsilon is not what it claims.

One shard of the records for each critic, shuffled once and sliced; each critic warms up against a
throw-away generator of its own; then a step draws one critic, trains it against fresh images of the
shared generator, and takes the gradient of that one critic, clipped for each image to C, with noise
of 2 C z in every pixel. One draw serves all images of a step, so the accountant that treats them as
independent draws says far too little: `true_epsilon` has the bounds of what it costs.

With noise 0 and no clip it is the non-private run, whose gradient norms the paper shows.

Shapes: N images, C channels, H height, W width, K critics.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu
from torch.nn.utils.parametrizations import spectral_norm

from analyst.evaluation.image_file import LabelledImages, load_images, save_images
from analyst.generators.generator import (
    ConditionalGenerator,
    ImageShape,
    build_generator,
    draw_latents,
    initialise,
)
from analyst.generators.sampling import generate
from analyst.recipes import Recipe, load_recipe
from analyst.training.grid import to_pixels
from analyst.training.state import Ema
from benchmarks.papers.accounting.hidden_critic import HiddenCritic, hidden_critic_bounds
from benchmarks.papers.data import DataSet, read_data, scaled, visible
from benchmarks.papers.measure import kept, measure, write_grid
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import Work

_BETAS = (0.5, 0.9)
_DRIFT = 1e-3  # weight of the squared score of a record, as published
_SLOPE = 0.2
_KERNEL = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The algorithm's numbers; the defaults are the paper's.

    `noise_multiplier` is over 2 C, for each image; 0 is the run without privacy, not clipped.
    """

    num_critics: int = 1000
    warm_start_steps: int = 2000
    num_steps: int = 20_000
    num_samples: int = 32
    critic_steps: int = 5
    critic_width: int = 64
    noise_multiplier: float = 1.07
    clip_norm: float = 1.0
    gradient_penalty: float = 10.0
    learning_rate: float = 1e-4
    ema_decay: float = 0.999


class Critic(nn.Module):
    """Three strided convolutions and a projection head, spectrally normalised, as published."""

    def __init__(self, shape: ImageShape, width: int) -> None:
        """Build the layers."""
        super().__init__()
        wide = (shape.channels, width, 2 * width, 4 * width)
        self.layers = nn.ModuleList(
            spectral_norm(nn.Conv2d(one, other, _KERNEL, stride=2, padding=_KERNEL // 2))
            for one, other in itertools.pairwise(wide)
        )
        area = math.prod(-(-side // 2 ** len(self.layers)) for side in (shape.height, shape.width))
        self.score = spectral_norm(nn.Linear(wide[-1] * area, 1))
        self.classes = spectral_norm(nn.Linear(wide[-1] * area, shape.num_classes, bias=False))

    def forward(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return a score an image."""
        features = images_NCHW
        for layer in self.layers:
            features = leaky_relu(layer(features), _SLOPE)
        flat = features.flatten(1)
        own = self.classes(flat).gather(1, labels_N[:, None])
        scores: Tensor = (self.score(flat) + own)[:, 0]
        return scores


class Shard:
    """A critic, its records and its optimizer."""

    def __init__(
        self, given: Published, shape: ImageShape, records: tuple[Tensor, Tensor], seed: int
    ) -> None:
        """Draw the weights."""
        self._given, (self._pixels, self._labels) = given, records
        self.randomness = torch.Generator().manual_seed(seed)
        self.critic = Critic(shape, given.critic_width)
        initialise(self.critic, self.randomness)
        rate = given.learning_rate
        self._optimizer = torch.optim.Adam(self.critic.parameters(), lr=rate, betas=_BETAS)

    def learn(self, images_NCHW: Tensor, labels_N: Tensor) -> None:
        """Take one step of the Wasserstein loss with a gradient penalty."""
        given, count = self._given, len(labels_N)
        rows = torch.randint(len(self._labels), (count,), generator=self.randomness)
        real, of = self._pixels[rows], self._labels[rows]
        scores = self.critic(real, of)
        loss = self.critic(images_NCHW, labels_N).mean() - scores.mean()
        loss = loss + _DRIFT * scores.square().mean()
        mixing = torch.rand((count, 1, 1, 1), generator=self.randomness)
        between = (mixing * real + (1 - mixing) * images_NCHW).requires_grad_()
        (slopes,) = torch.autograd.grad(self.critic(between, of).sum(), between, create_graph=True)
        loss = loss + given.gradient_penalty * (slopes.flatten(1).norm(dim=1) - 1).square().mean()
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        self._optimizer.step()

    def gradient(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return the gradient of minus the scores, an image each."""
        images = images_NCHW.clone().requires_grad_()
        (slopes,) = torch.autograd.grad(-self.critic(images, labels_N).sum(), images)
        return slopes


def make(work: Work) -> Measured:
    """Train as published, sample and measure."""
    recipe = load_recipe(work.settings["recipe"], dict(work.settings.get("set", {})))
    data = read_data(recipe.training.dataset, work.data, size=work.settings.get("size"))
    given = Published(**work.settings["published_run"])
    done = kept(work.folder / "trained.json", lambda: _trained(work, recipe, data, given))
    synthetic = load_images(work.folder / "synthetic.npz")
    write_grid(work.folder / "grid.png", synthetic)
    return Measured(
        values=measure(work, synthetic, visible(data, data.test)) | done["norms"],
        seconds=done["seconds"],
        true_epsilon=true_epsilon(given, float(work.settings["delta"])),
        details={"data": recipe.training.dataset},
    )


def true_epsilon(given: Published, delta: float) -> str:
    """Return in words what a run of the published algorithm costs."""
    if given.noise_multiplier == 0:
        return "infinite"
    run = HiddenCritic(
        num_critics=given.num_critics,
        num_samples=given.num_samples,
        noise_multiplier=given.noise_multiplier,
    )
    bounds = hidden_critic_bounds(run, given.num_steps, delta)
    return f"at least {math.floor(bounds.least)}, at most {math.ceil(bounds.most)}"


def _trained(work: Work, recipe: Recipe, data: DataSet, given: Published) -> dict[str, Any]:
    """Train and write the images; return seconds and the norms of gradients."""
    started = time.monotonic()
    pixels, labels = scaled(data, data.private), torch.from_numpy(data.private.labels)
    shape = ImageShape(
        channels=pixels.shape[1],
        height=pixels.shape[2],
        width=pixels.shape[3],
        num_classes=data.num_classes,
    )
    randomness = torch.Generator().manual_seed(work.seed)
    order = torch.randperm(len(labels), generator=randomness)
    parts = order[: len(order) // given.num_critics * given.num_critics].chunk(given.num_critics)
    shards = [
        Shard(given, shape, (pixels[part], labels[part]), seed=1000 * work.seed + place)
        for place, part in enumerate(parts)
    ]
    for shard in shards:
        work.left()
        own = build_generator(recipe.generator, shape, shard.randomness)
        _steps(work, given, own, [shard], shard.randomness, is_warm_start=True)
    model = build_generator(recipe.generator, shape, randomness)
    ema, norms = _steps(work, given, model, shards, randomness, is_warm_start=False)
    with ema.applied_to(model), torch.no_grad():
        images, of = generate(model, work.settings["count"], randomness)
    save_images(
        work.folder / "synthetic.npz", LabelledImages(to_pixels(images), of.numpy()), force=True
    )
    return {"seconds": round(time.monotonic() - started, 1), "norms": _in_numbers(norms, given)}


def _steps(
    work: Work,
    given: Published,
    model: ConditionalGenerator,
    shards: list[Shard],
    randomness: torch.Generator,
    *,
    is_warm_start: bool,
) -> tuple[Ema, list[float]]:
    """Train a generator against critics, one drawn for each step; return the norms of gradients."""
    optimizer = torch.optim.Adam(model.parameters(), lr=given.learning_rate, betas=_BETAS)
    ema, norms = Ema(model, given.ema_decay), []

    def made() -> tuple[Tensor, Tensor]:
        latents = draw_latents(model.latent, given.num_samples, model.latent_dim, randomness)
        labels = torch.randint(model.num_classes, (given.num_samples,), generator=randomness)
        return model(latents, labels), labels

    for _ in range(given.warm_start_steps if is_warm_start else given.num_steps):
        work.left()
        shard = shards[int(torch.randint(len(shards), (1,), generator=randomness))]
        for _ in range(given.critic_steps):
            with torch.no_grad():
                images, labels = made()
            shard.learn(images, labels)
        images, labels = made()
        slopes = shard.gradient(images.detach(), labels)
        norms += slopes.flatten(1).norm(dim=1).tolist()
        if not is_warm_start and given.noise_multiplier > 0:
            slopes = sanitized(slopes, given, randomness)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([images], [slopes / given.num_samples])
        optimizer.step()
        ema.update(model)
    return ema, norms


def sanitized(slopes_NCHW: Tensor, given: Published, randomness: torch.Generator) -> Tensor:
    """Return slopes, each clipped to C, with noise of 2 C z in every pixel."""
    norms = slopes_NCHW.flatten(1).norm(dim=1)[:, None, None, None]
    clipped = slopes_NCHW * (given.clip_norm / norms.clamp_min(given.clip_norm))
    noise = torch.randn(clipped.shape, generator=randomness)
    noised: Tensor = clipped + 2 * given.clip_norm * given.noise_multiplier * noise
    return noised


def _in_numbers(norms: list[float], given: Published) -> dict[str, float]:
    """Return median and quartiles of the norms before clipping, and how many it would shorten."""
    low, middle, high = statistics.quantiles(norms, n=4)
    clipped = sum(norm > given.clip_norm for norm in norms) / len(norms)
    numbers = {"norm_low": low, "norm_median": middle, "norm_high": high, "clipped": 100 * clipped}
    return {name: round(value, 4) for name, value in numbers.items()}
