"""The configuration file documents itself, and unknown keys are errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.config import TEMPLATE, ConfigError, CuratorConfig, load_config


def test_the_template_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "curator.toml"
    path.write_text(TEMPLATE)
    assert load_config(path) == CuratorConfig() == load_config(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[grpc]\nprot = 1", "grpc.prot: unknown key"),
        ("[metrics]\n", "metrics: unknown key"),
        ("[grpc]\nport = 70000", "grpc.port"),
        ('[grpc]\nport = "50051"', "grpc.port"),
        ("[limits]\nmax_samples = 0", "limits.max_samples"),
        ('[compute]\ndevice = "gpu"', 'compute.device: \'gpu\' is none of "cpu", "cuda" and'),
        ('[identity]\nhost_names = "x"', "identity.host_names: must be a list in brackets"),
        ("[grpc", "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_with_the_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "curator.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)
