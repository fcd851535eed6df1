"""Records a second of an embedding's release, and steps a second of training on a saved one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from analyst.embedding.offline import OfflineRun
from analyst.recipes.load import load_recipe
from benchmarks.embedding import saved_embedding
from benchmarks.gpu_training import rate
from curator.divergences.device import choose_device
from curator.divergences.random_features import fourier_features, orthogonal_features
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec, feature_map
from curator.privacy.batches import PASS_ROWS, ImageSpace, RecordBatch
from curator.privacy.private import Private
from curator.sanitizer.entropy import OsEntropy

_FULL, _SMALL = "embedding-mnist-10", "embedding-mnist-10-cpu"
_MAPS = ("mix", "mix-sorf")
_SPACE = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)
_COMPARED = 64  # records
_REPEATS = 3
_LONGEST_S = 20.0
Row = dict[str, object]


def releases(device: str, *, quick: bool) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row of each map's release.

    Args:
        device: Where features are computed, and their rows bounded and added.
        quick: Whether two batches of a small recipe are enough, in place of an MNIST.
    """
    num_batches, name = (2, _SMALL) if quick else (118, _FULL)
    for chosen in _MAPS:

        def row(chosen: str = chosen) -> Row:
            recipe = load_recipe(name, {"mechanism.feature_map": chosen})
            spec = MeanEmbeddingSpec(**saved_embedding(recipe).parameters)
            mechanism, noise = MeanEmbedding(spec, _SPACE), OsEntropy()
            batch = _batch()
            mechanism.setup([Private(batch)], noise)
            seconds = []
            for _ in range(_REPEATS):
                started = time.perf_counter()
                mechanism.setup([Private(batch)] * num_batches, noise)
                seconds.append(time.perf_counter() - started)
            found: Row = {
                "benchmark": "release of an embedding",
                "map": chosen,
                "features": spec.width,
                "records_per_second": round(num_batches * PASS_ROWS / statistics.median(seconds)),
                "records": num_batches * PASS_ROWS,
                "repeats": _REPEATS,
            }
            if device != "cpu":
                found["rows_are_the_processors"] = _same_rows(
                    spec, batch.levels_MD[:_COMPARED], device
                )
            return found

        yield row


def offline(device: str, steps: int, *, quick: bool) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row of training on a saved embedding, of each map and way.

    Args:
        device: Where all of a step is computed.
        steps: Of each, after the first ones.
        quick: Whether a small recipe is enough.
    """
    name = _SMALL if quick else _FULL
    for is_captured in (False,) if device == "cpu" else (False, True):
        for chosen in _MAPS:

            def row(chosen: str = chosen, *, is_captured: bool = is_captured) -> Row:
                changes = {"session.device": device, "session.cuda_graph": is_captured}
                recipe = load_recipe(name, changes | {"mechanism.feature_map": chosen})
                embedding = saved_embedding(recipe)
                run = OfflineRun(embedding, num_steps=1 << 30, next_step=1, is_captured=is_captured)
                with _short_products(device):
                    measured = rate(recipe, run, steps, _LONGEST_S)
                return {
                    "benchmark": "training on a saved embedding",
                    "map": chosen,
                    "way": "CUDA graphs" if is_captured else "eager",
                    "images": len(recipe.mechanism.draw_labels(10, torch.Generator())),
                } | measured

            yield row


def _batch() -> RecordBatch:
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(0, 256, (PASS_ROWS, _SPACE.dimension), generator=generator)
    return RecordBatch(
        levels_MD=levels.to(torch.uint8),
        labels_M=torch.arange(PASS_ROWS) % _SPACE.num_classes,
        mask_M=torch.ones(PASS_ROWS, dtype=torch.bool),
        units_M=torch.arange(PASS_ROWS),
    )


def _same_rows(spec: MeanEmbeddingSpec, levels_MD: Tensor, device: str) -> bool:
    """Return whether records have the same rows on a card and on the processor, to the bit."""
    rows = []
    for where in (device, "cpu"):
        with _computing_on(where, device):
            rows.append(feature_map(spec, _SPACE).record_rows(levels_MD).to("cpu"))
    return torch.equal(*rows)


@contextmanager
def _computing_on(where: str, otherwise: str) -> Iterator[None]:
    """Draw frequencies on another device than the rest of the process does."""

    def choose(device: str) -> None:
        choose_device(device)
        fourier_features.cache_clear()
        orthogonal_features.cache_clear()

    choose(where)
    try:
        yield
    finally:
        choose(otherwise)


@contextmanager
def _short_products(device: str) -> Iterator[None]:
    """Let a card cut factors short, as training on a saved embedding does."""
    before = torch.get_float32_matmul_precision()
    if device != "cpu":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
