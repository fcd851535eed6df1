"""Inception features from a local TorchScript file: no weights come with this package.

The file holds one module, for images uint8 [N, 3, H, W] of any size, which it resizes itself:
`module(images, return_features=True)` is [N, 2048] features, `module(images, no_output_bias=True)`
class probabilities. That is how the file published with StyleGAN2-ADA is called. A TorchScript file
is a program, so one is loaded only if its SHA-256 is that of the published file, or one that was
typed in.

Shapes: N rows, H height, W width, D features, K classes.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from analyst.errors import EvaluationError
from analyst.evaluation.image_file import LabelledImages
from analyst.os_errors import explain_os_error

_AT_ONCE = 100
_MOST_BYTES = 1 << 30  # of a larger file the digest is another one, too
NAME = "inception-2015-12-05.pt"
SHA256 = "f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4"
"""Of the file that StyleGAN2-ADA publishes, 95,607,719 bytes."""

NO_WEIGHTS = "no FID by Inception: give --features inception, with its weights in a local file"
_REMEDY = (
    "Give a TorchScript module whose call with return_features=True or no_output_bias=True returns "
    "a row of features or class probabilities per image."
)


@final
class Inception:
    """The module of a file."""

    def __init__(self, path: Path, *, sha256: str = SHA256, device: str = "cpu") -> None:
        """Load the file.

        Args:
            path: Where it is.
            sha256: What it must have, in hexadecimal.
            device: A torch device.

        Raises:
            EvaluationError: If it is not there, is another file, or cannot be loaded.
        """
        content = _checked(path, sha256)  # what is run is what was checked
        self._path = path
        self._device = device
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TorchScript is deprecated; the file is what it is
                load: Any = torch.jit.load
                self._module: Any = load(io.BytesIO(content), map_location=device).eval()
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
            raise EvaluationError(message, "Leave out --features inception.")
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


def weights_file(given: Path | None) -> Path:
    """Return where the weights are: as typed in, or in the user's cache."""
    return given or Path.home() / ".cache" / "weir" / NAME


def _checked(path: Path, sha256: str) -> bytes:
    """Return the file that is meant, before anything of it is run.

    Raises:
        EvaluationError: If it is not there, or is another one.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        words, _ = explain_os_error(error, str(path))
        message = f"cannot read the Inception weights {words}"
        remedy = (
            f"Fetch {NAME} once (StyleGAN2-ADA publishes it, 96 MB) and save it there, or give "
            "--inception-weights FILE; grey images up to 64 pixels need none."
        )
        raise EvaluationError(message, remedy) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256.lower():
        message = f"{path} has the SHA-256 {found}, not {sha256.lower()}"
        remedy = (
            "Fetch it again, or type --inception-sha256 HEX if you trust this very file: it is a "
            "program."
        )
        raise EvaluationError(message, remedy)
    return content
