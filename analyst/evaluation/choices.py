"""What can be chosen on the command line, apart from the packages that carry it out."""

from __future__ import annotations

from typing import Literal, get_args

Flat = Literal[
    "logistic",
    "random-forest",
    "gaussian-nb",
    "bernoulli-nb",
    "linear-svc",
    "decision-tree",
    "lda",
    "adaboost",
    "bagging",
    "gbm",
    "xgboost",
]
Network = Literal["mlp", "cnn"]
Classifier = Literal[Flat, Network]
PAPER_CLASSIFIERS: tuple[Classifier, ...] = ("logistic", "mlp", "cnn")
SUITE_CLASSIFIERS: tuple[Classifier, ...] = (
    *PAPER_CLASSIFIERS,
    *(name for name in get_args(Flat) if name != "logistic"),
)
Suite = Literal["papers", "gs-wgan"]
Features = Literal["lenet", "inception"]
Format = Literal["npz", "folder", "idx"]
EXTRA = "Install the extra: pip install 'weir-dp[evaluation]'."
