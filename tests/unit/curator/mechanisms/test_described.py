from __future__ import annotations

import builtins
import json
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from curator import cli
from curator.accounting import explain
from curator.accounting.event_text import event_to_text
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.accounting.explain import CrossCheckMissing, explain_lines, opacus_epsilon
from curator.accounting.explain import explain as chain
from curator.mechanisms.described import read_described
from curator.mechanisms.dp_swd import DpSwd, DpSwdSpec
from curator.privacy.batches import ImageSpace
from curator.privacy.event_numbers import SamplingRate

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"

SMALL = {
    "mechanism": "sampled-gaussian",
    "parameters": {"sampling_rate": 0.01, "noise_multiplier": 1.5},
    "num_steps": 1000,
    "epsilon": 3.0,
    "delta": 1e-5,
}
SLICED = {
    "mechanism": "sampled-sliced-gaussian",
    "parameters": {
        "sampling_rate": 0.01,
        "dimension": 64,
        "num_projections": 40,
        "noise_multiplier": 1.2,
        "max_size": 1500,
        "capacity": 64,
    },
    "num_steps": 500,
    "epsilon": 3.0,
    "delta": 1e-5,
}
SINKHORN: dict[str, Any] = {
    "num_samples": 50,
    "num_debias": 10,
    "clip_norm": 0.5,
    "noise_multiplier": 1.1,
    "reg": 0.05,
    "l1_weight": 1.0,
    "label_scale": 15.0,
    "schedule": "published",
    "images_of_the_analyst": 7,  # what only the analyst uses is not sent
}
BAD_NUMBERS: list[object] = [
    *(float("nan"), float("inf"), float("-inf"), 0, -1, 0.0, -0.5, True, None, "1", [], {}),
    *(1e300, 10**30, 10**400),
]


def put(table: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    if key in table:
        return {**table, key: value}
    return {**table, "parameters": {**table["parameters"], key: value}}


def test_the_chain_is_consistent() -> None:
    why = chain(read_described(SMALL, {}), cross_check=True)
    decisive = [line for line in why.orders if line.order == why.deciding_order]
    assert decisive[0].epsilon == pytest.approx(why.ledger_epsilon, rel=1e-12)
    assert all(why.ledger_epsilon <= line.epsilon * (1 + 1e-12) for line in why.orders)
    assert why.pld_epsilon <= why.renyi_epsilon <= why.ledger_epsilon
    assert why.opacus_epsilon is not None
    assert why.pld_epsilon <= why.opacus_epsilon <= why.renyi_epsilon * (1 + 1e-6)
    assert sum(line.delta_share for line in why.orders) == pytest.approx(1e-5)
    assert why.fits == (why.ledger_epsilon <= 3.0)
    assert why.fits == (why.num_steps <= (why.affordable_steps or 0))
    json.dumps(why.to_json(), allow_nan=False)


def test_the_sliced_gaussian() -> None:
    why = chain(read_described(SLICED, {}), cross_check=True)
    assert "40 fresh random projections of rows of 64" in why.events[0]
    assert why.opacus_epsilon is None
    assert any("does not know this mechanism" in line for line in explain_lines(why))


def test_a_release_once_has_free_steps() -> None:
    parameters = {
        "num_features": 8,
        "bandwidths": [1.0],
        "feature_seed": 1,
        "count_scale": 0.1,
        "noise_multiplier": 4.1,
    }
    table = {"mechanism": "mean-embedding", "parameters": parameters}
    run = read_described({**table, "epsilon": 1.0, "delta": 1e-5}, {})
    why = chain(run, cross_check=True)
    assert why.affordable_steps is None
    assert why.num_steps == 1
    assert any("they are free" in line for line in explain_lines(why))


def test_open_steps_are_all_that_the_budget_affords() -> None:
    why = chain(read_described(put(SMALL, "num_steps", "all"), {}), cross_check=False)
    assert why.num_steps == why.affordable_steps
    assert why.fits


def test_a_recipe_is_read_and_overridden() -> None:
    recipe = {
        "mechanism": {"kind": "dp-sinkhorn", "expected_batch_size": 50, **SINKHORN},
        "training": {"steps": 3_446_400},
        "generator": {"kind": "dcgan"},
    }
    budget = {"epsilon": 10.0, "delta": 1e-5, "nominal_size": 60_000}
    run = read_described(recipe, budget)
    assert run.step == SampledGaussianEvent(
        sampling_rate=SamplingRate.at_least(50 / 60_000), noise_multiplier=1.1
    )
    assert run.num_steps == 3_446_400
    assert read_described(recipe, {**budget, "num_steps": 7}).num_steps == 7
    with pytest.raises(ValueError, match="nominal"):
        read_described(recipe, {"epsilon": 10.0, "delta": 1e-5})


NUMERIC = {
    **dict.fromkeys(("noise_multiplier", "sampling_rate", "num_steps", "epsilon", "delta"), SMALL),
    **dict.fromkeys(("dimension", "num_projections", "max_size", "capacity"), SLICED),
}


@pytest.mark.parametrize("key", NUMERIC)
def test_bad_numbers_are_refused_before_any_accountant(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(*_: object, **__: object) -> None:
        pytest.fail("an accountant was called")

    for name in ("event_cost", "pld_epsilon", "opacus_epsilon"):
        monkeypatch.setattr(explain, name, called)
    table = NUMERIC[key]
    tracemalloc.start()
    for bad in BAD_NUMBERS:
        if key in {"max_size", "capacity"} and bad == 10**30:
            continue
        with pytest.raises(ValueError, match=r"\w"):
            chain(read_described(put(table, key, bad), {}), cross_check=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"mechanism": 7},
        {"mechanism": "laplace"},
        {"mechanism": "dp-sinkhorn"},
        {"mechanism": {"kind": ["dp-sinkhorn"]}},
        put(SMALL, "parameters", [1]),
        {**SMALL, "mechanism": "dp-sinkhorn"},
        {**SMALL, "mechanism": "gs-wgan-published"},
        {**SMALL, "epsilom": 3.0},
        {k: v for k, v in SMALL.items() if k != "delta"},
        put(SLICED, "max_size", None),
    ],
)
def test_other_descriptions_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_described(table, {})


def test_opacus_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("opacus"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CrossCheckMissing, match="pip install opacus"):
        opacus_epsilon([(GaussianEvent(noise_multiplier=1.0), 1)], 1e-5)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["accountant", "explain", json.dumps(SMALL), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ledger_epsilon"] > told["pld_epsilon"] > 0
    file = tmp_path / "spec.toml"
    file.write_text(
        'mechanism = "gaussian"\nepsilon = 1.0\ndelta = 1e-5\nnum_steps = 3\n'
        "[parameters]\nnoise_multiplier = 9.0\n"
    )
    favour = ["--favour", str(file)]
    assert cli.main(["accountant", "explain", str(file), "--epsilon", "2", *favour]) == 0
    text = capsys.readouterr().out
    assert "<- decides" in text
    assert "budget       epsilon 2," in text


@pytest.mark.parametrize(
    "spec",
    ["{", "[]", '{"mechanism": NaN}', "{" * 5000, "no/such/file", "{}" + " " * 70_000],
)
def test_the_command_refuses(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["accountant", "explain", spec]) == 1
    assert capsys.readouterr().err.startswith("curator: ")


SWD = {
    "mechanism": "dp-swd",
    "parameters": {
        "sampling_rate": 0.01,
        "capacity": 66,
        "num_samples": 10,
        "num_projections": 40,
        "clip_norm": 2.0,
        "label_scale": 1.0,
        "origin": "grey",
        "noise_multiplier": 1.2,
        "max_size": 1500,
        "max_records_per_unit": 2,
    },
    "num_steps": 500,
    "epsilon": 3.0,
    "delta": 1e-5,
}


def test_dp_swd_is_priced_as_its_mechanism_prices_itself() -> None:
    space = ImageSpace(channels=1, height=8, width=7, max_level=16, num_classes=8)
    spec = DpSwdSpec.model_validate(SWD["parameters"])
    assert read_described(SWD, {"dimension": 64}).step == DpSwd(spec, space).step_event()
    with pytest.raises(ValueError, match="dimension is missing"):
        read_described(SWD, {})


@pytest.mark.parametrize("key", ["dimension", "capacity", "max_size", "max_records_per_unit"])
@pytest.mark.parametrize("bad", [0, -1, 0.5, True, "1", 1 << 40, float("nan")])
def test_bad_sizes_of_dp_swd_are_refused(key: str, bad: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_described(put(put(SWD, "dimension", 64), key, bad), {})


def test_all_that_is_missing_is_named_at_once() -> None:
    recipe = {
        "mechanism": {"kind": "dp-sinkhorn", "expected_batch_size": 50, **SINKHORN},
        "training": {"steps": 10},
    }
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_described(recipe, {})
    told = str(refused.value).split("; ")
    assert [line.split()[0] for line in told] == ["epsilon", "delta", "nominal_size"]
    assert all(f"give --{name}" in line for name, line in zip(
        ("epsilon", "delta", "nominal-size"), told, strict=True))  # fmt: skip
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_described({"mechanism": "sampled-sliced-gaussian"}, {"epsilon": 1.0})
    missing = {line.split()[0] for line in str(refused.value).split("; ")}
    needed = {"delta", "sampling_rate", "max_size", "capacity", "dimension", "num_projections"}
    assert missing == {*needed, "noise_multiplier"}


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"mechanism": {"kind": "dp-sinkhorn"}}, "[mechanism] of the recipe"),
        ({"mechanism": "dp-sinkhorn"}, '"parameters"'),
    ],
)
def test_a_key_is_called_what_it_is(table: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        read_described(table, {"epsilon": 1.0, "delta": 1e-5})
    assert f"sampling_rate is missing: add it to {where}; " in str(refused.value)


def test_a_mistyped_mechanism_or_recipe_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="did you mean dp-sinkhorn"):
        read_described({"mechanism": "dp-sinkhon"}, {"epsilon": 1.0, "delta": 1e-5})
    for spec, words in (
        ("dp-sinkhorn-mnst.toml", "did you mean dp-sinkhorn-mnist? "),
        ("dp-sinkhorn-mnist", "there is no such file; 'analyst recipes show dp-sinkhorn-mnist > "),
        ("mnist-to-usp", "did you mean mnist-to-usps? "),
        ("xyzzy", "'analyst recipes' lists recipes"),
    ):
        assert cli.main(["accountant", "explain", spec]) == 1
        assert words in capsys.readouterr().err


def test_overflow_is_computed_from_the_declared_sizes() -> None:
    event = read_described(SLICED, {}).step
    assert isinstance(event, SampledSlicedGaussianEvent)
    assert 0 < event.overflow_probability < 1e-18
    assert event.base == SlicedGaussianEvent(dimension=64, num_projections=40, noise_multiplier=1.2)


def test_a_mechanism_is_priced_as_it_prices_itself() -> None:
    runs = json.loads((FIXTURES / "before_the_move.json").read_text())["mechanisms"]
    for run in runs:
        table = {"mechanism": run["mechanism"], "parameters": json.loads(run["parameters"])}
        given = {"epsilon": 10.0, "delta": 1e-5, "dimension": 18}
        described = read_described(table, given)
        assert event_to_text(described.setup) == run["setup"]
        assert event_to_text(described.step) == run["step"]
        assert described.sensitivity


@pytest.fixture
def without_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the epsilon of the run alone, which takes long for millions of steps."""
    monkeypatch.setattr("curator.accounting.explain.pld_epsilon", lambda *_: 1.0)


@pytest.mark.usefixtures("without_distributions")
def test_a_method_that_is_known_in_advance_is_favoured() -> None:
    little = put(put(SMALL, "sampling_rate", 1 / 1200), "noise_multiplier", 0.494)
    run = read_described(put(put(little, "epsilon", 10.0), "num_steps", "all"), {})
    usual, best = (
        chain(run, cross_check=False, favourite=order) for order in (None, run.favourite)
    )
    assert usual.favourite != best.favourite == run.favourite
    assert best.num_steps > 2 * usual.num_steps
    assert f"favours order {best.favourite:g}" in "\n".join(explain_lines(best))


@pytest.mark.usefixtures("without_distributions")
def test_what_a_budget_favours_affords_more_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipes = Path(__file__).resolve().parents[4] / "analyst" / "recipes"
    recipe = str(recipes / "dp-sinkhorn-mnist-cpu.toml")
    budget = ["--epsilon", "10", "--delta", "1e-5", "--nominal-size", "60000", "--capacity", "112"]

    def affordable(*more: str) -> int:
        assert cli.main(["accountant", "explain", recipe, *budget, "--json", *more]) == 0
        steps: int = json.loads(capsys.readouterr().out)["affordable_steps"]
        return steps

    assert affordable("--favour", recipe) > affordable()
    explained = ["accountant", "explain", recipe, *budget, "--favour"]
    assert cli.main([*explained, recipe]) == 0
    assert "--favour changes nothing" not in capsys.readouterr().out
    usual = '{"mechanism": "gaussian", "parameters": {"noise_multiplier": 9}}'
    assert cli.main([*explained, usual]) == 0
    assert capsys.readouterr().out.endswith("any such budget favours this order by default\n")
