"""Places: what a scan looks like, wherever it lies, so that scans that may show the same can be found among many.

In: scans. Out: how similar any two are. A scan is some hundred places, each described by the invariants of the
network's encoder. Two scans are similar if the places of each have a place on the other that looks alike. To compare
two takes a product of small matrices, where to register them takes seconds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from eda.assembly.inputs.clouds import Clouds
from eda.assembly.inputs.downsample import ModelInput, to_model_device
from eda.model import Eda
from eda.nn import EdaNetwork
from eda.nn.invariants import by_degree, lengths

LEVEL = 0  # of the encoder; the next one finds fewer overlapping pairs


def can_describe(model: Eda | None) -> bool:
    """Whether the features of a model describe places: it is one of this package, whose encoder does not see time."""
    return model is not None and isinstance(model.network, EdaNetwork) and not model.network.config.time_in_encoder


def place_features(model: Eda, clouds: Clouds) -> list[np.ndarray]:
    """The places of N scans: unit vectors (n_i, D) that do not depend on how a scan lies."""
    count = len(clouds)
    pieces = to_model_device(ModelInput.of(clouds, count * model.config.budget.of(2) // 2).pieces, model)
    # The unit of length of a puzzle grows with its pieces; the encoder was trained on two.
    larger = (count / 2) ** 0.5
    encoding = model.encode(replace(pieces, points=pieces.points * larger, scales=pieces.scales / larger))
    degrees = by_degree(encoding.levels[LEVEL])
    features = torch.cat([degrees[0].squeeze(1), *lengths(degrees)], dim=-1).double().cpu().numpy()
    features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-9)
    features /= np.linalg.norm(features, axis=1, keepdims=True) + 1e-9
    return np.split(features, np.cumsum(encoding.pyramid.levels[LEVEL].sizes.cpu().numpy())[:-1])


def similarity(places: list[np.ndarray]) -> np.ndarray:
    """(N, N) symmetric: the mean likeness of every place to the most similar one of the other scan; -inf to itself."""
    mean = np.full((len(places), len(places)), -np.inf)
    for i, mine in enumerate(places):
        for j in range(i):
            products = mine @ places[j].T
            mean[i, j] = mean[j, i] = products.max(axis=1).mean() + products.max(axis=0).mean()
    return mean
