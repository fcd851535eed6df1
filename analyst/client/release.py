"""The one release of a run, as the curator hands it out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from analyst.client.codec import released_values
from analyst.errors import ProtocolError
from protos.weir.v1 import release_pb2


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DownloadedRelease:
    """What a run released when it opened, and the parameters it was opened with."""

    run_id: str
    dataset: str
    mechanism: str
    parameters: dict[str, Any]
    values: Tensor  # float64, exact

    @classmethod
    def of(cls, message: release_pb2.DownloadReleaseResponse) -> Self:
        """Return the release of a message.

        Returns:
            Its blocks joined along the first axis.

        Raises:
            ProtocolError: If it cannot be understood.
        """
        blocks = [released_values(block) for block in message.blocks]
        try:
            values = torch.from_numpy(np.concatenate(blocks))
            parameters = json.loads(message.choice.parameters)
        except ValueError:
            msg = "The curator's release cannot be read."
            raise ProtocolError(msg, "Install the version that the steward uses.") from None
        return cls(
            run_id=message.run_id,
            dataset=message.dataset,
            mechanism=message.choice.mechanism,
            parameters=parameters,
            values=values,
        )
