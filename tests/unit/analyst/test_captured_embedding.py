"""Training on a saved embedding by graphs is the eager one, on a card or with graphs of a fake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.embedding import scattering, sessions
from analyst.embedding.captured import CapturedObjective
from analyst.embedding.file import SavedEmbedding, save_embedding
from analyst.embedding.offline import EmbeddingObjective, OfflineBarrier, OfflineRun
from analyst.errors import RecipeError
from analyst.generators.generator import ImageShape
from analyst.recipes import Recipe, load_recipe
from analyst.training import captured, loop
from analyst.training.captured import CapturedUpdates
from analyst.training.generated_means import GeneratedMeans
from analyst.training.guided import Guide, GuidedRun
from analyst.training.loop import Update, train
from analyst.training.progress import Progress
from analyst.training.run_source import ImageRun
from analyst.training.session import SessionOptions
from analyst.training.state import TrainingState, new_state, state_tensors
from tests.fakes import cuda
from tests.fakes.card import pretended_card
from tests.unit.analyst.test_embedding import saved
from tests.unit.curator.mechanisms.test_mean_embedding import (
    MIX,
    MIX_SORF,
    PARAMETERS,
    SCATTERING,
)

MakeStop = Callable[..., Any]
SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
    ),
]


@pytest.fixture(params=DEVICES)
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name == "cpu":
        cuda.install(monkeypatch, captured)
        monkeypatch.setattr(scattering, "why_plain", lambda: "a graph holds no compiled loops")
    return name


def assert_alike(where: str, got: torch.Tensor, expected: torch.Tensor, atol: float = 1e-6) -> None:
    """To the bit with the fake; a card adds in an order of its own."""
    if where == "cpu":
        assert torch.equal(got, expected)
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=atol)


def digits(chosen: dict[str, Any]) -> SavedEmbedding:
    return saved(chosen, SHAPE, name="digits")


@pytest.mark.parametrize("chosen", [PARAMETERS, SCATTERING, MIX, MIX_SORF])
@pytest.mark.parametrize(("memory", "turns"), [(1, 1), (5, 1), (1, 3)])
def test_gradients_are_those_of_the_eager_way(
    where: str, chosen: dict[str, Any], memory: int, turns: int
) -> None:
    if turns > 1 and chosen is MIX_SORF:
        return
    embedding = digits(chosen)
    width = embedding.sums_KR.shape[1] - 1
    runs = []
    for is_captured in (False, True):
        past = GeneratedMeans(10, width, window=memory) if memory > 1 else None
        run = OfflineRun(
            embedding,
            num_steps=20,
            next_step=1,
            past=past,
            num_turns=turns,
            is_captured=is_captured,
        )
        runs.append((run, past))
    (eager, seen), (replayed, remembered) = runs
    for step in range(9):
        generator = torch.Generator().manual_seed(step)
        rows = 12 if step == 4 else 30  # another number of images is captured too
        batch = (torch.rand((rows, 1, 8, 8), generator=generator) * 2 - 1).to(where)
        labels = torch.randint(0, 10, (rows,), generator=generator).to(where)
        expected = eager.gradient(batch, labels)
        assert expected.abs().max() > 0
        assert_alike(where, replayed.gradient(batch, labels), expected)
    if seen is not None and remembered is not None:
        for name, tensor in seen.tensors().items():
            assert_alike(where, remembered.tensors()[name], tensor)


def test_a_graph_copies_nothing_from_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.install(monkeypatch, captured)
    monkeypatch.setattr(cuda.FakeGraph, "replay", lambda _: None)
    with pretended_card() as card:
        for chosen in (PARAMETERS, MIX, MIX_SORF):
            embedding = digits(chosen)
            past = GeneratedMeans(10, embedding.sums_KR.shape[1] - 1, window=5)
            images = (torch.linspace(-1, 1, 640).reshape(10, 1, 8, 8)).to(card)
            labels = torch.arange(10).to(card)
            made = CapturedObjective(EmbeddingObjective(embedding))
            assert made.gradient(images, labels, past).device == card


def test_a_gradient_that_cannot_be_captured_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.install(monkeypatch, captured)
    objective = EmbeddingObjective(digits(PARAMETERS))

    def waiting(images: torch.Tensor, labels: torch.Tensor, *_: object, **__: object) -> Any:
        return images * labels.max().item()

    monkeypatch.setattr(EmbeddingObjective, "gradient", staticmethod(waiting))
    with pytest.raises(RecipeError, match="cannot be captured as CUDA graphs") as caught:
        CapturedObjective(objective).gradient(torch.zeros(4, 1, 8, 8), torch.arange(4))
    assert "session.cuda_graph" in caught.value.remedy


class Tally:
    """Observes and stops, and notes the size of each gradient."""

    asked = False

    def __init__(self) -> None:
        self.norms: list[float] = []

    def wait(self, seconds: float) -> bool:
        raise AssertionError(seconds)

    def updated(self, update: Update) -> None:
        self.norms.append(update.gradient_norm)

    def skipped(self, first: int, last: int) -> None:
        raise AssertionError((first, last))

    def waiting(self, delay: float, left: float) -> None:
        raise AssertionError((delay, left))


@pytest.mark.parametrize("is_guided", [False, True])
def test_training_has_the_weights_of_eager_gradients(
    where: str, monkeypatch: pytest.MonkeyPatch, is_guided: bool
) -> None:
    """The loop keeps images on the card, and draws, asks and updates as ever."""
    recipe = load_recipe("embedding-digits", {"training.steps": 7, "session.device": where})
    embedding = saved(recipe.mechanism.parameters(None), SHAPE, "digits")  # type: ignore[arg-type]
    kept: list[bool] = []

    def updates_of(state: TrainingState, _: Recipe, *, are_images_sent: bool) -> CapturedUpdates:
        kept.append(not are_images_sent)
        return CapturedUpdates(state, torch.device(where), are_images_sent=are_images_sent)

    monkeypatch.setattr(loop, "updates_of", updates_of)
    states, tallies = [], []
    for is_captured in (False, True):
        run: ImageRun = OfflineRun(embedding, num_steps=7, next_step=1, is_captured=is_captured)
        if is_guided:
            guide = Guide(gradient=lambda images, _: images * 0.1, shape=SHAPE, run_id="g")
            run = GuidedRun(run, guide, 0.5)
        states.append(new_state(recipe, SHAPE))
        tallies.append(Tally())
        train(states[-1], run, recipe, observer=tallies[-1], stop=tallies[-1])
    assert kept == [True, True]
    assert len(tallies[0].norms) == 7
    assert all(norm > 0 for norm in tallies[0].norms)
    expected = state_tensors(states[0])
    for name, tensor in state_tensors(states[1]).items():
        assert_alike(where, tensor, expected[name], atol=2e-4)


def test_the_recipe_decides_whether_gradients_are_captured(
    tmp_path: Path, progress: Progress, make_stop: MakeStop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []

    def barrier(*given: Any, is_captured: bool, **options: Any) -> Any:
        made.append(is_captured)
        return OfflineBarrier(*given, is_captured=False, **options)

    monkeypatch.setattr(sessions, "OfflineBarrier", barrier)
    monkeypatch.setattr(sessions, "_allow_short_products", lambda _: None)
    monkeypatch.setattr(sessions, "run_session", lambda *_: None)
    save_embedding(tmp_path / "e", digits(PARAMETERS))
    options = SessionOptions(out=tmp_path / "run")
    for on_card in ({}, {"session.device": "cuda", "session.cuda_graph": True}):
        recipe = load_recipe("embedding-digits", on_card)
        sessions.train_offline(tmp_path / "e", recipe, options, progress, make_stop())
    assert made == [False, True]
