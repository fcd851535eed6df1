"""Names and parameters as they arrive in a request."""

from __future__ import annotations

import json

import pytest

from curator.errors import MalformedRequest
from curator.mechanisms.adversarial_dp_sinkhorn import AdversarialDpSinkhorn
from curator.mechanisms.catalogue import (
    MAX_PARAMETER_BYTES,
    canonical_json,
    mechanism_names,
    parameter_schema,
    parse_mechanism,
)
from curator.mechanisms.dp_cgan import DpCgan
from curator.mechanisms.dp_merf_ae import DpMerfAe
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.mechanisms.dp_swd import DpSwd
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.mechanisms.g_pate import GPate
from curator.mechanisms.gs_wgan_decoupled import GsWganDecoupled
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.mechanisms.gs_wgan_round_robin import GsWganRoundRobin
from curator.mechanisms.mean_embedding import MeanEmbedding
from curator.mechanisms.pate_gan import PateGan
from tests.fakes import features
from tests.unit.curator.mechanisms import (
    test_adversarial_dp_sinkhorn,
    test_dp_cgan,
    test_dp_merf_ae,
    test_dp_sinkhorn,
    test_dp_swd,
    test_g_pate,
    test_gs_wgan_mean,
    test_mean_embedding,
    test_pate_gan,
)
from tests.unit.curator.mechanisms.test_dp_sinkhorn import SPACE

PARAMETERS = {
    "adversarial-dp-sinkhorn": test_adversarial_dp_sinkhorn.PARAMETERS,
    "dp-cgan": test_dp_cgan.PARAMETERS,
    "dp-merf-ae": test_dp_merf_ae.PARAMETERS,
    "dp-sinkhorn": test_dp_sinkhorn.PARAMETERS,
    "dp-swd": test_dp_swd.PARAMETERS,
    "dp-swd-features": {**features.PARAMETERS, "architecture": "mlp-features"},
    "g-pate": test_g_pate.PARAMETERS,
    "gs-wgan-decoupled": test_gs_wgan_mean.PARAMETERS | {"critics_per_step": 5},
    "gs-wgan-mean": test_gs_wgan_mean.PARAMETERS,
    "gs-wgan-round-robin": test_gs_wgan_mean.PARAMETERS,
    "mean-embedding": test_mean_embedding.PARAMETERS,
    "pate-gan": test_pate_gan.PARAMETERS,
}
GOOD = json.dumps(PARAMETERS["mean-embedding"])


def test_names_open_their_mechanisms() -> None:
    assert mechanism_names() == tuple(sorted(PARAMETERS))
    opened = {
        name: parse_mechanism(name, json.dumps(PARAMETERS[name]), SPACE) for name in PARAMETERS
    }
    assert isinstance(opened["adversarial-dp-sinkhorn"], AdversarialDpSinkhorn)
    assert isinstance(opened["dp-cgan"], DpCgan)
    assert isinstance(opened["dp-merf-ae"], DpMerfAe)
    assert isinstance(opened["dp-sinkhorn"], DpSinkhorn)
    assert isinstance(opened["dp-swd"], DpSwd)
    assert isinstance(opened["dp-swd-features"], DpSwdFeatures)
    assert isinstance(opened["g-pate"], GPate)
    assert isinstance(opened["gs-wgan-decoupled"], GsWganDecoupled)
    assert isinstance(opened["gs-wgan-mean"], GsWganMean)
    assert isinstance(opened["gs-wgan-round-robin"], GsWganRoundRobin)
    assert isinstance(opened["mean-embedding"], MeanEmbedding)
    assert isinstance(opened["pate-gan"], PateGan)


@pytest.mark.parametrize("name", ["", "dp_sinkhorn", "DP-SINKHORN", "dp-sinkhorn\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(MalformedRequest, match=f"expected one of {', '.join(sorted(PARAMETERS))}"):
        parse_mechanism(name, GOOD, SPACE)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_canonical_json_is_one_text_that_parses_back(name: str) -> None:
    shuffled = json.dumps(dict(reversed(PARAMETERS[name].items())), indent=3)
    text = canonical_json(parse_mechanism(name, shuffled, SPACE).spec)
    assert text == canonical_json(parse_mechanism(name, text, SPACE).spec)
    assert list(json.loads(text)) == sorted(PARAMETERS[name])
    assert " " not in text


def test_an_integer_for_a_float_is_the_same_specification() -> None:
    texts = [GOOD.replace("1.0", number) for number in ("1", "1.0", "1e0")]
    canonical = {canonical_json(parse_mechanism("mean-embedding", t, SPACE).spec) for t in texts}
    assert len(canonical) == 1


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_schema_lists_every_field_as_required(name: str) -> None:
    schema = parameter_schema(name)
    left_out = {
        "dp-cgan": test_dp_cgan.OPTIONAL,
        "mean-embedding": test_mean_embedding.OPTIONAL,
    }
    optional = set(left_out.get(name, ()))
    assert sorted(schema["properties"]) == sorted(PARAMETERS[name])
    assert set(schema["required"]) == set(PARAMETERS[name]) - optional
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 9000, "not valid JSON"),
        ("[]", "expected an object"),
        ("null", "expected an object"),
        (" " * (MAX_PARAMETER_BYTES + 1), "at most"),
        ("\u00e9" * (MAX_PARAMETER_BYTES // 2 + 1), "at most"),
        ('{"\ud800": 1}', "parameters"),
        (GOOD.replace("0.5", "NaN"), "NaN"),
        (GOOD.replace("0.5", "-Infinity"), "NaN"),
        (GOOD.replace("0.5", "1e999"), "noise_multiplier"),
        (GOOD.replace("0.5", "9" * 5000), "parameters|noise_multiplier"),
        (GOOD.replace("{", '{"count_scale": 0.2, ', 1), "given twice"),
        (GOOD.replace("0.5", '"0.5"'), "noise_multiplier"),
        (GOOD.replace("1.0", "true"), r"bandwidths\.0"),
        (GOOD.replace("count_scale", "count_scala"), "count_scala"),
        ("{}", "num_features"),
    ],
)
def test_wrong_texts_are_refused(text: str, detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        parse_mechanism("mean-embedding", text, SPACE)


def test_details_name_the_field_and_never_repeat_a_value() -> None:
    secret = "swordfish"
    text = json.dumps(
        PARAMETERS["dp-sinkhorn"] | {"schedule": secret, "reg": secret, f"<{secret}>": secret}
    )
    with pytest.raises(MalformedRequest) as refused:
        parse_mechanism("dp-sinkhorn", text, SPACE)
    assert "schedule: " in refused.value.detail
    assert "reg: " in refused.value.detail
    assert secret not in refused.value.detail
    assert len(refused.value.detail) < 1000
