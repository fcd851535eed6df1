"""Folding published weights: the same network, without batch normalisation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from analyst.embedding.networks import network_map
from analyst.generators.generator import ImageShape
from curator.administration.add_network import NewNetwork, add_network
from scripts.fold_network import ROOT, fold, read_state
from tests.fakes.vision_transformer import VisionTransformer

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


class BasicBlock(nn.Module):
    """As the published one: two convolutions, each normalised, and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, maps: Tensor) -> Tensor:
        made = torch.relu(self.bn1(self.conv1(maps)))
        came: Tensor = self.downsample(maps) if hasattr(self, "downsample") else maps
        return torch.relu(self.bn2(self.conv2(made)) + came)


class ResNet18(nn.Module):
    """The published network, by the names of its published weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for number, (outputs, stride) in enumerate(STAGES, start=1):
            blocks = BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(512, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return the averages of the last maps."""
        mean = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
        spread = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)
        maps = torch.relu(self.bn1(self.conv1(((images + 1) / 2 - mean) / spread)))
        maps = nn.functional.max_pool2d(maps, 3, 2, 1)
        for number in range(1, 5):
            maps = getattr(self, f"layer{number}")(maps)
        return maps.mean(dim=(2, 3))


def published() -> ResNet18:
    """Return a network whose normalisation has seen something."""
    model, drawn = ResNet18(), torch.Generator().manual_seed(0)
    for one in model.modules():
        if isinstance(one, nn.BatchNorm2d):
            state = one.state_dict()
            for name, low in (("weight", 0.5), ("running_var", 0.5)):
                nn.init.uniform_(state[name], low, 1.5, generator=drawn)
            for name in ("bias", "running_mean"):
                nn.init.uniform_(state[name], -0.3, 0.3, generator=drawn)
        elif isinstance(one, nn.Conv2d):
            nn.init.kaiming_normal_(one.weight, generator=drawn)
    return model.eval()


@torch.no_grad()
def test_a_folded_network_says_what_the_published_one_does(tmp_path: Path) -> None:
    model = published()
    source, out = tmp_path / "resnet.pth", tmp_path / "resnet.safetensors"
    torch.save(model.state_dict(), source)
    made = subprocess.run(
        [
            *(sys.executable, ROOT / "scripts" / "fold_network.py", source),
            *("--architecture", "resnet-18", "--out", out),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    new = NewNetwork(name="r", architecture="resnet-18", origin="drawn")
    add_network(tmp_path / "networks", new, out)
    asked = {"architecture": "resnet-18", "stages": [4], "cells": 1, "enlarged": 1}
    shape = ImageShape(channels=3, height=32, width=32, num_classes=2)
    images = torch.rand((2, 3, 32, 32), generator=torch.Generator().manual_seed(1)) * 2 - 1
    found = network_map(asked, shape, load_file(out))(images)
    expected = nn.functional.normalize(model(images).clamp(max=32), dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)
    assert float(expected.std()) > 0.01


def test_another_network_is_refused() -> None:
    state = published().state_dict()
    with pytest.raises(ValueError, match="resnet-50 has 53 convolutions, and the file 20"):
        fold(state, "resnet-50", "torchvision", epsilon=1e-5)
    state["conv1.weight"] = torch.zeros(64, 3, 5, 5)
    with pytest.raises(ValueError, match=r"is \(64, 3, 5, 5\), and layer0"):
        fold(state, "resnet-18", "torchvision", epsilon=1e-5)


def test_safetensors_are_read_too(tmp_path: Path) -> None:
    sizes = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    state, inputs, number = {}, 3, 0
    for outputs, count in sizes:
        for _ in range(count):
            state[f"features.{number:02}.weight"] = torch.zeros(outputs, inputs, 3, 3)
            state[f"features.{number:02}.bias"] = torch.full((outputs,), float(number))
            inputs, number = outputs, number + 1
    source = tmp_path / "vgg.safetensors"
    save_file(state, source)
    made = fold(load_file(source), "vgg16", "half", epsilon=1e-5)
    assert made["layer12.bias"][0] == 12
    assert torch.equal(made["input.weight"].flatten(), torch.ones(3))
    assert torch.equal(made["input.bias"], torch.zeros(3))


@torch.no_grad()
@pytest.mark.parametrize("named", ["by_published_names", "by_other_published_names"])
def test_a_renamed_transformer_says_what_the_published_one_does(tmp_path: Path, named: str) -> None:
    model = VisionTransformer().redrawn(0).eval()
    state = getattr(model, named)()
    out = tmp_path / "vits.safetensors"
    save_file(fold(state, "dinov2-vits14", "torchvision", epsilon=1e-5), out)
    new = NewNetwork(name="v", architecture="dinov2-vits14", origin="drawn")
    add_network(tmp_path / "networks", new, out)
    asked = {"architecture": "dinov2-vits14", "stages": [12], "cells": 1, "enlarged": 1}
    shape = ImageShape(channels=3, height=28, width=42, num_classes=2)
    images = torch.rand((2, 3, 28, 42), generator=torch.Generator().manual_seed(1)) * 2 - 1
    found = network_map(asked, shape, load_file(out))(images)
    expected = nn.functional.normalize(model(images), dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert float((found[0] - found[1]).norm()) > 0.1


def test_another_transformer_is_refused() -> None:
    state = VisionTransformer(depth=1).by_published_names()
    with pytest.raises(ValueError, match=r"has a tensor blocks\.1\.ls1\.gamma"):
        fold(state, "dinov2-vits14", "torchvision", epsilon=1e-5)
    with pytest.raises(ValueError, match="take the weights without registers"):
        fold(
            state | {"register_tokens": torch.zeros(1, 4, 384)}, "dinov2-vits14", "half", epsilon=1
        )
    wide = VisionTransformer(width=768, hidden=3072).by_published_names()
    with pytest.raises(ValueError, match=r"token.weight is \(768,\) in the file, and \(384,\)"):
        fold(wide, "dinov2-vits14", "torchvision", epsilon=1e-5)


def test_files_that_are_none_get_words(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pth"
    torch.save(ResNet18().state_dict(), whole)
    cut = whole.read_bytes()[:100_000]
    for name in ("cut.pth", "cut.safetensors"):
        (tmp_path / name).write_bytes(cut)
    torch.save({"epoch": 1, "state_dict": {}}, tmp_path / "nested.pth")
    torch.save(nn.Linear(1, 1), tmp_path / "module.pth")
    for name, words in {
        "cut.pth": "it is damaged, or holds more than tensors",
        "cut.safetensors": "it is damaged",
        "nested.pth": "no state dictionary but epoch, state_dict",
        "module.pth": "which is never executed",
        "none.pth": "it cannot be read: No such file",
    }.items():
        with pytest.raises(ValueError, match=words):
            read_state(tmp_path / name)
    with pytest.raises(ValueError, match="it cannot be read"):
        read_state(tmp_path)
