"""Names and parameters as they arrive in a request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from curator.errors import MalformedRequest
from curator.mechanisms.catalogue import (
    MAX_PARAMETER_BYTES,
    MECHANISMS,
    canonical_json,
    mechanism_names,
    parameter_schema,
    parse_mechanism,
)
from tests.contract.small_parameters import SPACE, small_parameters
from tests.fakes import networks
from tests.unit.curator.mechanisms import test_dp_cgan, test_mean_embedding

PARAMETERS = {kind.name: small_parameters(kind) for kind in MECHANISMS}
GOOD = json.dumps(test_mean_embedding.PARAMETERS)


def test_names_open_their_mechanisms(tmp_path: Path) -> None:
    networks.offer(tmp_path)
    assert mechanism_names() == tuple(sorted(PARAMETERS))
    for kind in MECHANISMS:
        opened = parse_mechanism(kind.name, json.dumps(PARAMETERS[kind.name]), SPACE)
        assert type(opened) is kind


@pytest.mark.parametrize("name", ["", "dp_sinkhorn", "DP-SINKHORN", "dp-sinkhorn\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(MalformedRequest, match=f"expected one of {', '.join(sorted(PARAMETERS))}"):
        parse_mechanism(name, GOOD, SPACE)


def test_an_integer_for_a_float_is_the_same_specification() -> None:
    texts = [GOOD.replace("1.0", number) for number in ("1", "1.0", "1e0")]
    canonical = {canonical_json(parse_mechanism("mean-embedding", t, SPACE).spec) for t in texts}
    assert len(canonical) == 1


def test_only_these_fields_may_be_left_out() -> None:
    schemas = {name: parameter_schema(name) for name in mechanism_names()}
    optional = {
        name: set(schema["properties"]) - set(schema["required"])
        for name, schema in schemas.items()
    }
    assert {name: fields for name, fields in optional.items() if fields} == {
        "dp-cgan": set(test_dp_cgan.OPTIONAL),
        "mean-embedding": set(test_mean_embedding.OPTIONAL),
    }


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
