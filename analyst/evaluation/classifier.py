"""Train a classifier on synthetic images, test it on public real ones.

The classifiers are fixed beforehand: no setting, checkpoint or threshold is chosen by the test set.
Logistic regression is scikit-learn's L-BFGS with at most 5,000 iterations, as in the papers. The
small network is 100 ReLU units, stopped on a held-out tenth of the synthetic images.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from analyst.evaluation.image_file import ImageFileError, LabelledImages

Classifier = Literal["logistic", "mlp"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassRow:
    """How one class of the test set fared."""

    label: int
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

    def table(self) -> str:
        """Return the report as text."""
        lines = [f"{self.classifier}: accuracy {100 * self.accuracy:.1f}%"]
        lines.append("  class  synthetic   test   recall  precision")
        lines += [
            f"  {row.label:5d}  {row.num_synthetic:9,}  {row.num_test:5,}  "
            f"{100 * row.recall:6.1f}%  {100 * row.precision:8.1f}%"
            for row in self.rows
        ]
        return "\n".join(lines)


def evaluate(
    synthetic: LabelledImages, test: LabelledImages, classifier: Classifier, *, seed: int = 0
) -> Report:
    """Train on `synthetic`, test on `test`.

    Args:
        synthetic: Generated images and the labels they were generated for.
        test: Public real images; never private ones, whose accuracy would be a release.
        classifier: Which classifier.
        seed: Of the small network.

    Returns:
        Accuracy and a row per class of the test set.

    Raises:
        ImageFileError: If the images have different shapes or there are fewer than two classes.
    """
    if synthetic.images.shape[1:] != test.images.shape[1:]:
        message = f"images differ: {synthetic.images.shape[1:]} and {test.images.shape[1:]}"
        raise ImageFileError(message, "Compare images of one data set.")
    if len(np.unique(synthetic.labels)) < 2:
        message = "the synthetic images have one class"
        raise ImageFileError(message, "Sample at least two classes.")
    model = _build(classifier, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the cap is part of the protocol
        model.fit(_features(synthetic), synthetic.labels)
    predicted = model.predict(_features(test))
    rows = tuple(_row(int(label), synthetic, test, predicted) for label in np.unique(test.labels))
    return Report(
        classifier=classifier, accuracy=float(np.mean(predicted == test.labels)), rows=rows
    )


def _build(classifier: Classifier, seed: int) -> LogisticRegression | MLPClassifier:
    match classifier:
        case "logistic":
            return LogisticRegression(max_iter=5000)
        case "mlp":
            return MLPClassifier((100,), early_stopping=True, max_iter=200, random_state=seed)


def _features(data: LabelledImages) -> npt.NDArray[np.float64]:
    return data.images.reshape(len(data.images), -1) / 127.5 - 1.0


def _row(
    label: int,
    synthetic: LabelledImages,
    test: LabelledImages,
    predicted: npt.NDArray[np.int64],
) -> ClassRow:
    is_class, is_predicted = test.labels == label, predicted == label
    hits = int(np.sum(is_class & is_predicted))
    return ClassRow(
        label=label,
        num_synthetic=int(np.sum(synthetic.labels == label)),
        num_test=int(is_class.sum()),
        recall=hits / int(is_class.sum()),
        precision=hits / max(1, int(is_predicted.sum())),
    )
