"""Inception features from a local TorchScript file: no weights come with this package.

The file holds one module, for images uint8 [N, 3, H, W] of any size, which it resizes itself:
`module(images, return_features=True)` is [N, 2048] features, `module(images, no_output_bias=True)`
class probabilities. That is how the file published with StyleGAN2-ADA is called. A TorchScript file
is a program: load only one that you trust.

Shapes: N rows, H height, W width, D features, K classes.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from analyst.errors import EvaluationError
from analyst.evaluation.image_file import LabelledImages

_AT_ONCE = 100
NO_WEIGHTS = (
    "no FID and inception score: give --inception-weights FILE, a TorchScript file of InceptionV3 "
    "such as StyleGAN2-ADA publishes (inception-2015-12-05.pt)"
)
_REMEDY = (
    "Give a TorchScript module whose call with return_features=True or no_output_bias=True returns "
    "a row of features or class probabilities per image."
)


@final
class Inception:
    """The module of a file."""

    def __init__(self, path: Path, *, device: str = "cpu") -> None:
        """Load the file.

        Raises:
            EvaluationError: If it cannot be loaded.
        """
        self._path = path
        self._device = device
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TorchScript is deprecated; the file is what it is
                load: Any = torch.jit.load
                self._module: Any = load(str(path), map_location=device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            message = f"cannot load {path}: {str(error).partition(chr(10))[0]}"
            raise EvaluationError(message, _REMEDY) from None

    def features(self, data: LabelledImages) -> npt.NDArray[np.float32]:
        """Return features [N, D]."""
        return self._rows(data, return_features=True)

    def probabilities(self, data: LabelledImages) -> npt.NDArray[np.float32]:
        """Return class probabilities [N, K]."""
        return self._rows(data, no_output_bias=True)

    @torch.no_grad()
    def _rows(self, data: LabelledImages, **options: bool) -> npt.NDArray[np.float32]:
        """Return the module's output.

        Raises:
            EvaluationError: If the images are neither grey nor colour, or the output is not rows.
        """
        if data.images.shape[1] not in {1, 3}:
            message = f"Inception needs 1 or 3 channels, not {data.images.shape[1]}"
            raise EvaluationError(message, "Leave out --inception-weights.")
        outputs = []
        for chunk in torch.split(torch.from_numpy(data.images), _AT_ONCE):
            images = chunk.expand(-1, 3, -1, -1).to(self._device)
            try:
                rows = self._module(images, **options)
            except RuntimeError as error:
                message = f"{self._path} failed: {str(error).strip().splitlines()[-1]}"
                raise EvaluationError(message, _REMEDY) from None
            if rows.ndim != 2 or len(rows) != len(images):
                message = f"{self._path} returned {tuple(rows.shape)} for {len(images)} images"
                raise EvaluationError(message, _REMEDY)
            outputs.append(rows.float().cpu())
        found: npt.NDArray[np.float32] = torch.cat(outputs).numpy()
        return found
