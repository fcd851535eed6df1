"""Train a classifier on synthetic images, test it on public real ones.

The classifiers are fixed beforehand: no setting, checkpoint or threshold is chosen by the test set.
The three of the published protocol are logistic regression (scikit-learn's L-BFGS, at most 5,000
iterations, pixels in [0, 1]) and the two networks of `analyst.evaluation.networks`. The papers'
text is followed, not the code released with one of them, which differs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from analyst.errors import ImageFileError
from analyst.evaluation.choices import PAPER_CLASSIFIERS as PAPER_CLASSIFIERS
from analyst.evaluation.choices import SUITE_CLASSIFIERS as SUITE_CLASSIFIERS
from analyst.evaluation.choices import Classifier as Classifier
from analyst.evaluation.choices import Flat, Network
from analyst.evaluation.image_file import LabelledImages
from analyst.evaluation.networks import NetworkClassifier
from analyst.evaluation.suite import build_flat


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassRow:
    """How one class of the test set fared."""

    label: int
    name: str  # of the class; its number if that is all that is known
    num_synthetic: int
    num_test: int
    recall: float  # of the test images of this class, the part that was recognised
    precision: float  # of the test images given this label, the part that has it; 0 if none


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Accuracy on the test set, in all and by class."""

    classifier: Classifier
    accuracy: float
    rows: tuple[ClassRow, ...]
    labels: tuple[int, ...]  # of the confusion matrix: every label of either set
    names: tuple[str, ...]  # of these classes
    confusion: tuple[tuple[int, ...], ...]  # test images by true label, then by given label

    def table(self) -> str:
        """Return the report as text."""
        lines = [f"{self.classifier}: accuracy {100 * self.accuracy:.1f}%"]
        width = max(5, *(len(row.name) for row in self.rows))
        lines.append(f"  {'class':>{width}s}  synthetic   test   recall  precision")
        lines += [
            f"  {row.name:>{width}s}  {row.num_synthetic:9,}  {row.num_test:5,}  "
            f"{100 * row.recall:6.1f}%  {100 * row.precision:8.1f}%"
            for row in self.rows
        ]
        return "\n".join(lines)


def evaluate(
    synthetic: LabelledImages,
    test: LabelledImages,
    classifier: Classifier,
    *,
    seed: int = 0,
    device: str = "cpu",
) -> Report:
    """Train on `synthetic`, test on `test`.

    Args:
        synthetic: Generated images and the labels they were generated for.
        test: Public real images; never private ones, whose accuracy would be a release.
        classifier: Which classifier.
        seed: Of the classifiers that draw.
        device: Torch device of the networks.

    Returns:
        Accuracy, a row per class of the test set, and the confusion matrix.

    Raises:
        ImageFileError: If the images have different shapes or there are fewer than two classes.
    """
    if synthetic.images.shape[1:] != test.images.shape[1:]:
        message = f"images differ: {synthetic.images.shape[1:]} and {test.images.shape[1:]}"
        raise ImageFileError(message, "Compare images of one data set.")
    classes, encoded = np.unique(synthetic.labels, return_inverse=True)
    if len(classes) < 2:
        message = "the synthetic images have one class"
        raise ImageFileError(message, "Sample at least two classes.")
    if classifier in get_args(Network):
        network = NetworkClassifier(cast("Network", classifier), seed=seed, device=device)
        network.fit(synthetic.images, encoded)
        predicted = classes[network.predict(test.images)]
    else:
        flat = build_flat(cast("Flat", classifier), seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the cap is part of the protocol
            flat.fit(_features(synthetic), encoded)
        predicted = classes[flat.predict(_features(test))]
    return _report(classifier, synthetic, test, predicted)


def _features(data: LabelledImages) -> npt.NDArray[np.float32]:
    pixels: npt.NDArray[np.float32] = data.images.reshape(len(data.images), -1).astype(np.float32)
    pixels /= 255
    return pixels


def _report(
    classifier: Classifier,
    synthetic: LabelledImages,
    test: LabelledImages,
    predicted: npt.NDArray[np.int64],
) -> Report:
    labels = np.union1d(synthetic.labels, test.labels)
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    cells = np.searchsorted(labels, test.labels), np.searchsorted(labels, predicted)
    np.add.at(confusion, cells, 1)
    rows = tuple(
        ClassRow(
            label=int(label),
            name=synthetic.name_of(int(label)),
            num_synthetic=int(np.sum(synthetic.labels == label)),
            num_test=int(confusion[index].sum()),
            recall=confusion[index, index] / int(confusion[index].sum()),
            precision=confusion[index, index] / max(1, int(confusion[:, index].sum())),
        )
        for index, label in enumerate(labels)
        if confusion[index].any()
    )
    return Report(
        classifier=classifier,
        accuracy=float(np.mean(predicted == test.labels)),
        rows=rows,
        labels=tuple(labels.tolist()),
        names=tuple(map(synthetic.name_of, labels.tolist())),
        confusion=tuple(map(tuple, confusion.tolist())),
    )
