"""Which of the rendered letters are kept: three filters, from the cheapest to the dearest.

A *style* is one weight of one family, upright or italic; it gives one image for each letter. All filters return a
mask over the images.

1. `inked`: the mean ink (grey level / 255) of a style's letters has its median in [0.04, 0.9]. This drops blank and
   nearly blank styles, letters dissolved into dots, and solid blobs.
2. `distinct`: of pixel-identical images only the first is kept, within a family and across families. Where the copies
   bear different letters (a frame or a box drawn for everything) none is kept.
3. `recognisable`: a classifier that has never seen the family gives each image the probability of its own letter. It
   is the mean of the share of the 20 nearest neighbours that bear the letter and of a logistic regression, both on 64
   principal components, in five folds of families. Images below 0.02 are dropped: only those that both halves find
   wildly improbable. A style of which fewer than half the letters reach 0.1 is dropped whole: symbols, lower-case forms
   under capitals, letters lost in a frame. Nothing else is: swashes, outlines and blackletter stay, since notMNIST
   is full of them.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

LEAST_INK, MOST_INK = 0.04, 0.9
IMPROBABLE, DOUBTFUL = 0.02, 0.1

Mask = NDArray[np.bool_]


def inked(images: NDArray[np.uint8], style: NDArray[np.int64]) -> Mask:
    """Styles whose letters are neither blank nor a blob."""
    ink = images.mean(axis=(1, 2)) / 255
    median = np.array([np.median(ink[style == s]) for s in range(style.max() + 1)])
    return ((median >= LEAST_INK) & (median <= MOST_INK))[style] & (ink > 0)


def distinct(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Mask:
    """The first of each set of pixel-identical images; none of a set that bears several letters."""
    _, first, copy = np.unique(images.reshape(len(images), -1), axis=0, return_index=True, return_inverse=True)
    copy = copy.reshape(-1)
    ambiguous = np.zeros(len(first), bool)
    ambiguous[copy[labels != labels[first][copy]]] = True
    keep = np.zeros(len(images), bool)
    keep[first[~ambiguous]] = True
    return keep


def probability_of_letter(
    images: NDArray[np.uint8], labels: NDArray[np.uint8], font: NDArray[np.int16]
) -> NDArray[np.float64]:
    """Each image's probability of its own letter, from a classifier fitted without its family."""
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    vote = [("neighbours", KNeighborsClassifier(20)), ("logistic", LogisticRegression(C=0.1, max_iter=1000))]
    classifier = make_pipeline(PCA(64, svd_solver="covariance_eigh"), VotingClassifier(vote, voting="soft"))
    with threadpool_limits(1):  # many small products: threads cost far more than they save
        probability = cross_val_predict(
            classifier, pixels, labels, groups=font, cv=GroupKFold(5), method="predict_proba"
        )
    return np.asarray(probability)[np.arange(len(labels)), np.searchsorted(np.unique(labels), labels)]


def recognisable(probability: NDArray[np.float64], style: NDArray[np.int64]) -> Mask:
    """Images that are not wildly improbable, of styles of which at least half the letters can be told."""
    told = np.bincount(style, weights=probability >= DOUBTFUL)
    share = told / np.maximum(np.bincount(style), 1)
    return (probability >= IMPROBABLE) & (share >= 0.5)[style]
