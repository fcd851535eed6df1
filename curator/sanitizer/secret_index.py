"""Draw which of K parts answers, in secret."""

from __future__ import annotations

from curator.privacy.noise import NoiseSource

_BITS = 64


def secret_index(noise: NoiseSource, num_parts: int) -> int:
    """Return one of 0 .. num_parts - 1, each with probability at most 1 / K + 2^-64.

    Args:
        noise: Secret randomness; one word of it is used.
        num_parts: Public K.

    Privacy:
        An accountant's 1 / K may be below the probability by a relative K 2^-64, less than 1e-13
        for 2^20 parts; a cost is proportional to its square at most, and is inflated by 1e-9.
    """
    word = int(noise.uniform_words(1)[0]) % (1 << _BITS)
    return (word * num_parts) >> _BITS
