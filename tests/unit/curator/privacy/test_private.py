"""Nothing private leaves its box by accident."""

from __future__ import annotations

import copy
import logging
import pickle  # noqa: TID251 - to see that it is refused
from collections.abc import Callable

import pytest

from curator.privacy.private import Private, SealedError

SECRET = "patient-17"


@pytest.mark.parametrize(
    "escape",
    [
        lambda box: box == box,
        lambda box: box != Private(SECRET),
        hash,
        bool,
        len,
        iter,
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda box: {box},
    ],
)
def test_every_accidental_way_out_is_refused(escape: Callable[[object], object]) -> None:
    with pytest.raises(SealedError) as caught:
        escape(Private(SECRET))
    assert SECRET not in str(caught.value)


def test_printing_and_logging_show_a_constant(caplog: pytest.LogCaptureFixture) -> None:
    box = Private(SECRET)
    logging.getLogger("test").warning("box %s %r", box, box)
    for text in (repr(box), str(box), f"{box}", f"{box:>40}", caplog.text):
        assert SECRET not in text


def test_a_private_value_has_no_dictionary_to_look_into() -> None:
    assert not hasattr(Private(SECRET), "__dict__")


def test_unseal_returns_the_value() -> None:
    assert Private(SECRET).unseal() == SECRET
