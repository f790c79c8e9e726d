"""A Llama: 20 training steps and generation with both caches equal the CPU's."""

from __future__ import annotations

import torch

# 20 steps of AdamW, whose first steps divide by the root of tiny squares, amplify a last-bit difference about 100-fold.
TRAINED = (1e-4, 1e-4)


def test_llama_trains_and_generates_as_on_cpu(compare):
    result = compare("llama", losses=TRAINED, logits=(1e-3, 1e-3), dynamic=None, static=None)
    assert torch.equal(result["dynamic"], result["static"])
    assert result["losses"][-1] < 0.5 * result["losses"][0]
