"""Rows of quality: made of what the papers' harness measured, shown in a table and a plot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import quality
from benchmarks.papers.deep import build_deep, choice_of, noised
from benchmarks.papers.rows import append_row, read_rows
from benchmarks.quality import (
    BEGIN,
    COMMITTED,
    END,
    PAGE,
    delta_of,
    figure_of,
    page_text,
    row_of,
    table_lines,
)
from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.rule import BudgetRule
from curator.privacy.budget import Budget


def made(seed: int = 0, *, cnn: float = 95.0, **settings: Any) -> dict[str, Any]:
    """Return a row as the harness writes one."""
    return {
        "table": "quality",
        "seed": seed,
        "values": {"logistic": 80.0, "mlp": 85.0, "cnn": cnn, "deep": 96.0},
        "seconds": 10.0,
        "core_seconds": 20.0 + seed,
        "epsilon": 9.99,
        "details": {"data": "mnist", "deep_epsilon": 10.05},
        "settings": {
            "recipe": "two-stage-mnist", "recipe_digest": "0" * 12, "set": {}, "epsilon": 10.0,
            "delta": 1.51e-6, "count": 100, "deep_epochs": 2, "deep_width": 4, **settings,
        },
        "date": "2026-01-02",
        "processor": "x86_64, 2 cores",
    }  # fmt: skip


def test_a_row_has_the_keys_that_were_asked_for() -> None:
    row = row_of(made(set={"first.share": 0.5}))
    keys = "dataset recipe budget epsilon delta seed logistic mlp cnn deep seconds core_seconds"
    assert set(f"{keys} command date processor".split()) <= row.keys()
    assert (row["dataset"], row["recipe"], row["budget"]) == ("mnist", "two-stage-mnist", 10.0)
    assert row["command"].startswith(
        "python -m benchmarks.quality make two-stage-mnist --budgets 10"
    )
    assert "--set first.share=0.5" in row["command"]


def test_of_seeds_the_median_is_shown_beside_what_is_published() -> None:
    rows = [row_of(made(seed, cnn=cnn)) for seed, cnn in enumerate((93.0, 97.0, 94.5))]
    text = "\n".join(table_lines([*rows, row_of(made(set={"first.share": 0.5}))]))
    assert "| mnist, `two-stage-mnist` | 10 | 9.9900 | 3 | 80.0 | 85.0 | 94.5 | 96.0 | 21 |" in text
    assert "| mnist, `two-stage-mnist`, `first.share=0.5` | 10 | 9.9900 | 1 |" in text
    assert "best of three deep classifiers, published | 10 |  |  |  |  |  | 98.6 |  |" in text
    axes = figure_of("mnist", rows).axes
    assert [one.get_title() for one in axes] == ["mnist, epsilon 10"]
    assert len(axes[0].lines) == 4  # one recipe, three published methods


def test_without_rows_the_page_says_so() -> None:
    page = f"# Results\n{BEGIN}\nold\n{END}\nmore\n"
    assert page_text(page, []) == f"# Results\n{BEGIN}\n\nNo row is committed yet.\n\n{END}\nmore\n"
    with pytest.raises(ValueError, match="no lines"):
        page_text(f"{END}\n{BEGIN}\n", [])


def test_the_page_is_made_of_the_committed_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_text(page, read_rows((COMMITTED,))) == page
    for row in read_rows((COMMITTED,)):
        assert row["epsilon"] <= row["budget"]


def test_a_folder_s_rows_take_the_place_of_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, committed = tmp_path / "results.md", tmp_path / "quality.jsonl"
    page.write_text(f"{BEGIN}\n{END}\n")
    for name, value in {"PAGE": page, "COMMITTED": committed, "IMAGES": tmp_path}.items():
        monkeypatch.setattr(quality, name, value)
    for cnn, digest in ((93.0, "a"), (94.0, "b")):
        out = tmp_path / f"out-{digest}"
        append_row(out / "papers.jsonl", made(cnn=cnn, recipe_digest=digest * 12))
        append_row(out / "papers.jsonl", made(1, size=50))  # of a part of the images
        monkeypatch.setattr("sys.argv", ["quality", "keep", str(out)])
        assert quality.main() == 0
        (row,) = read_rows((committed,))
        assert (row["cnn"], row["seed"]) == (cnn, 0)
    assert "| 94.0 |" in page.read_text()
    assert (tmp_path / "quality-mnist.png").stat().st_size > 0


@pytest.mark.parametrize(("size", "delta"), [(60_000, 1.51e-6), (1437, 9.57e-5), (2, 0.721)])
def test_delta_is_that_of_the_published_numbers(size: int, delta: float) -> None:
    assert delta_of(size) == delta <= 1 / (size * math.log(size))


@pytest.mark.parametrize("epsilon", [10.0, 0.2])
def test_the_choice_adds_a_hundredth_by_the_ledgers_rule(epsilon: float) -> None:
    rule = BudgetRule.register(Budget(epsilon=epsilon, delta=1e-5))
    spent = event_cost(GaussianEvent(noise_multiplier=20 / epsilon))
    choice = choice_of(rule, spent, 4)
    counts = event_cost(GaussianEvent(noise_multiplier=choice.noise_multiplier)) * 4
    assert choice.epsilon == rule.spent_epsilon(spent + counts)
    before = rule.spent_epsilon(spent)
    assert 1.0099 * before < choice.epsilon <= 1.01 * before
    assert choice_of(rule, spent + Cost.zero(), 1).noise_multiplier < choice.noise_multiplier


def test_counts_have_the_noise_that_is_counted() -> None:
    """The spread of 4,000 draws is within a tenth of 30, and so is the mean: below 1e-9 of chance.

    The standard error is 1.1% of the spread, and 1.6% of 30 for the mean.
    """
    drawn = torch.tensor(noised([100] * 4000, 30.0), dtype=torch.float64)
    assert float(drawn.std()) == pytest.approx(30.0, rel=0.1)
    assert float(drawn.mean()) == pytest.approx(100.0, abs=3.0)


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (1, 8)])
def test_the_deep_classifier_has_the_shape_of_resnet_18(channels: int, side: int) -> None:
    network = build_deep(channels, 10, 2, seed=0).eval()
    images = torch.rand(3, channels, side, side, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert network(images).shape == (3, 10)
        assert torch.equal(network(images), build_deep(channels, 10, 2, seed=0).eval()(images))
    layers = [
        one for one in network.modules() if isinstance(one, torch.nn.Conv2d | torch.nn.Linear)
    ]
    assert len([one for one in layers if one.weight.shape[-1] != 1]) == 18


def test_a_key_at_its_default_leaves_rows_together() -> None:
    digest = quality._resolved("embedding-digits", {})
    assert quality._resolved("embedding-digits", {"training.turns": 1}) == digest
    assert quality._resolved("embedding-digits", {"training.turns": 2}) != digest
