"""A stand-in for CelebA: crops of the two public photographs that scikit-learn brings along.

Two classes, one a photograph, so that what needs colour images with a label can be run without
faces. It says nothing about faces.
"""

from __future__ import annotations

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from analyst.evaluation.image_file import LabelledImages

CLASSES = ("china", "flower")
_IMAGES = 12_000
_LEAST, _MOST = 64, 320  # pixels of a crop's side


def pictures(side: int, num_images: int = _IMAGES) -> tuple[LabelledImages, LabelledImages]:
    """Return a training part and a sixth as many test images, which come of another seed.

    Args:
        side: Pixels of the square images.
        num_images: Of the training part.
    """
    return crops(side, num_images, seed=0), crops(side, num_images // 6, seed=1)


def crops(side: int, num_images: int, *, seed: int) -> LabelledImages:
    """Return square crops of random size and place, in turn of the classes, some mirrored."""
    photographs = [Image.fromarray(one) for one in load_sample_images().images]
    randomness = np.random.default_rng(seed)
    images = np.empty((num_images, 3, side, side), np.uint8)
    labels = np.arange(num_images) % len(CLASSES)
    for place, label in enumerate(labels):
        whole = photographs[label]
        width = int(randomness.integers(_LEAST, _MOST))
        left = int(randomness.integers(whole.width - width))
        top = int(randomness.integers(whole.height - width))
        box = (left, top, left + width, top + width)
        small = np.asarray(whole.resize((side, side), Image.Resampling.BILINEAR, box))
        if randomness.random() < 0.5:
            small = small[:, ::-1]
        images[place] = small.transpose(2, 0, 1)
    return LabelledImages(images, labels.astype(np.int64), classes=CLASSES)
