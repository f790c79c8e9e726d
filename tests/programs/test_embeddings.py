"""Sentence embeddings with real weights: the device equals the CPU and finds the right neighbours."""

from __future__ import annotations

import torch

# One float32 forward of six layers: the same kernels, so only the order of a blocked sum may differ.
FLOAT32 = (1e-5, 1e-6)


def test_embeddings_equal_cpu(compare):
    result = compare("embeddings", embeddings=FLOAT32, similarity=FLOAT32)
    nearest = (result["similarity"] - 2 * torch.eye(8)).argmax(1).tolist()
    assert nearest[:2] == [1, 0], "the two sentences about eating belong together"
    assert nearest[6:] == [7, 6], "the two sentences about shares belong together"
