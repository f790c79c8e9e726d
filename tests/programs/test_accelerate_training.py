"""accelerate runs on the device named by ACCELERATE_TORCH_DEVICE."""

from __future__ import annotations

import os

# Float32, eight accumulated steps of AdamW.
TRAINED = (1e-4, 1e-5)


def test_accelerate_trains_as_on_cpu(compare):
    before = os.environ.get("ACCELERATE_TORCH_DEVICE")
    try:
        result = compare("accelerate_training", losses=TRAINED, predictions=TRAINED, weight=TRAINED, ran_on_device=None)
    finally:
        os.environ.pop("ACCELERATE_TORCH_DEVICE", None)
        if before is not None:
            os.environ["ACCELERATE_TORCH_DEVICE"] = before
    assert result["ran_on_device"] == 1.0
