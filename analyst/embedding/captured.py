"""Gradients of a saved embedding as CUDA graphs: one for each turn and number of images.

A gradient is a hundred kernels, most of them small, and a replay launches all of them at once. The
images never leave the card. The numbers are those of the eager way but for the order in which a
card adds.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import torch
from torch import Tensor

from analyst.errors import RecipeError

if TYPE_CHECKING:
    from analyst.embedding.offline import EmbeddingObjective
    from analyst.training.generated_means import GeneratedMeans

_WARM_UPS: Final = 3  # algorithms are chosen and memory is found before anything is captured


@final
class CapturedObjective:
    """Answers as an `EmbeddingObjective` does, in a tensor that a later answer overwrites."""

    def __init__(self, objective: EmbeddingObjective) -> None:
        """Capture nothing yet.

        Args:
            objective: Makes gradients.
        """
        self._objective = objective
        self._graphs: dict[tuple[int, int], _CapturedGradient] = {}

    def gradient(
        self,
        images_NCHW: Tensor,
        labels_N: Tensor,
        past: GeneratedMeans | None = None,
        *,
        step: int = 0,
    ) -> Tensor:
        """Return the gradient of the eager objective; nobody waits for it.

        Args:
            images_NCHW: On a card; as large each time there are as many.
            labels_N: On the card.
            past: The same object each time.
            step: Says whose turn it is.

        Raises:
            RecipeError: If the gradient cannot be captured.
        """
        key = step % self._objective.num_turns, len(labels_N)
        if key not in self._graphs:
            self._graphs[key] = self._captured(images_NCHW, labels_N, past, step)
        return self._graphs[key](images_NCHW, labels_N)

    def _captured(
        self, images_NCHW: Tensor, labels_N: Tensor, past: GeneratedMeans | None, step: int
    ) -> _CapturedGradient:
        remembered = None if past is None else past.tensors()

        def gradient(images: Tensor, labels: Tensor) -> Tensor:
            return self._objective.gradient(images, labels, past, step=step)

        def forget() -> None:
            if past is not None and remembered is not None:
                past.load(remembered)

        try:
            with torch.cuda.device(images_NCHW.device):
                return _CapturedGradient(gradient, images_NCHW, labels_N, forget)
        except RuntimeError as error:
            message = f"gradients of this release cannot be captured as CUDA graphs: {error}"
            raise RecipeError(message, "Leave session.cuda_graph out.") from None


@final
class _CapturedGradient:
    """A graph for one number of images, and the tensors that it reads and writes."""

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        images_NCHW: Tensor,
        labels_N: Tensor,
        forget: Callable[[], None],
    ) -> None:
        """Run the function, take back what it changed, and capture it.

        Args:
            function: From images and labels on the card to a gradient.
            images_NCHW: Of the shape of every call's.
            labels_N: The same.
            forget: Takes back what the function changed beside its result.
        """
        self._images_NCHW, self._labels_N = images_NCHW.clone(), labels_N.clone()
        device = images_NCHW.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                function(self._images_NCHW, self._labels_N)
        torch.cuda.current_stream(device).wait_stream(stream)
        forget()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._gradient_NCHW = function(self._images_NCHW, self._labels_N)

    def __call__(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return the gradient, which the next call overwrites."""
        self._images_NCHW.copy_(images_NCHW)
        self._labels_N.copy_(labels_N)
        self._graph.replay()
        return self._gradient_NCHW
