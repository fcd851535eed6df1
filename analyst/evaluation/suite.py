"""The thirteen classifiers of GS-WGAN's evaluation, by name.

The paper lists them without settings. These are scikit-learn's and XGBoost's defaults but for what
keeps sixty thousand images affordable: boosting takes 50 rounds on a tenth of the rows, bagging 20
trees on a tenth each, the linear machine solves the primal problem. Logistic regression and the two
networks are those of the published protocol.

Pixels are in [0, 1]; the Bernoulli model sees whether they are above one half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy.typing as npt
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from analyst.errors import EvaluationError
from analyst.evaluation.choices import EXTRA, Flat


class FlatClassifier(Protocol):
    """A classifier of rows of pixels."""

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> object:
        """Learn."""
        ...

    def predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a class per row."""
        ...


def _xgboost(seed: int) -> FlatClassifier:
    """Return XGBoost's classifier.

    Raises:
        EvaluationError: If it is not installed.
    """
    try:
        from xgboost import XGBClassifier
    except ImportError:
        message = "the suite needs XGBoost, which is not installed"
        raise EvaluationError(message, EXTRA) from None
    classifier: FlatClassifier = XGBClassifier(random_state=seed, n_jobs=torch.get_num_threads())
    return classifier


_BUILDERS: Mapping[Flat, Callable[[int], FlatClassifier]] = {
    "logistic": lambda _: LogisticRegression(max_iter=5000),
    "random-forest": lambda seed: RandomForestClassifier(
        random_state=seed, n_jobs=torch.get_num_threads()
    ),
    "gaussian-nb": lambda _: GaussianNB(),
    "bernoulli-nb": lambda _: BernoulliNB(binarize=0.5),
    "linear-svc": lambda seed: LinearSVC(dual=False, random_state=seed),
    "decision-tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "lda": lambda _: LinearDiscriminantAnalysis(),
    "adaboost": lambda seed: AdaBoostClassifier(random_state=seed),
    "bagging": lambda seed: BaggingClassifier(
        n_estimators=20, max_samples=0.1, random_state=seed, n_jobs=torch.get_num_threads()
    ),
    "gbm": lambda seed: GradientBoostingClassifier(
        n_estimators=50, subsample=0.1, max_features="sqrt", random_state=seed
    ),
    "xgboost": _xgboost,
}


def build_flat(name: Flat, seed: int) -> FlatClassifier:
    """Return an untrained classifier."""
    return _BUILDERS[name](seed)
