"""The rows of a graphics card are documented, and those of embeddings come without one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from analyst.recipes import Recipe, load_recipe
from benchmarks import gpu, gpu_embedding
from curator.divergences import device, random_features
from tests.documented import ROOT
from tests.fakes.card import pretended_card

SMALL = {
    "mechanism.num_features": 12,
    "mechanism.num_scattering_features": 12,
    "mechanism.images_per_class": 2,
    "generator.width": 8,
}


def forget() -> None:
    random_features.fourier_features.cache_clear()
    random_features.orthogonal_features.cache_clear()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def recipe(name: str, changes: dict[str, Any]) -> Recipe:
        return load_recipe(name, changes | SMALL)

    monkeypatch.setattr(gpu_embedding, "load_recipe", recipe)
    monkeypatch.setattr(gpu_embedding, "PASS_ROWS", 20)
    monkeypatch.setattr(device, "_chosen", {})
    forget()
    yield
    forget()


def test_every_part_is_described() -> None:
    page = (ROOT / "docs/how-to/use-a-graphics-card.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    described = set(re.findall(r"`(\w+)`", " ".join(first_cells)))
    assert described == set(gpu.parts("cuda", quick=True))


def test_rows_of_a_release_say_that_a_card_has_the_rows_of_the_processor() -> None:
    with pretended_card() as card:
        device.choose_device(str(card))
        rows = [make() for make in gpu_embedding.releases(str(card), quick=True)]
    assert [row["map"] for row in rows] == ["mix", "mix-sorf"]
    assert all(row["rows_are_the_processors"] is True for row in rows)
    assert all(row["records"] == 40 for row in rows)


def test_rows_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = random_features.FourierFeatures.exact_rows

    def rounded(features: Any, integers: Any, unit: float) -> Any:
        rows = exact(features, integers, unit)
        return rows if rows.device.type == "cpu" else rows * (1 + 2.0**-50)

    monkeypatch.setattr(random_features.FourierFeatures, "exact_rows", rounded)
    with pretended_card() as card:
        device.choose_device(str(card))
        rows = [make() for make in gpu_embedding.releases(str(card), quick=True)]
    assert [row["rows_are_the_processors"] for row in rows] == [False, False]


def test_rows_of_offline_training_count_its_steps() -> None:
    rows = [make() for make in gpu_embedding.offline("cpu", 3, quick=True)]
    assert [(row["map"], row["way"]) for row in rows] == [("mix", "eager"), ("mix-sorf", "eager")]
    assert all(row["images"] == 20 and row["steps"] == 3 for row in rows)
