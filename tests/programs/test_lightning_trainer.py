"""Lightning's Trainer runs on the device."""

from __future__ import annotations

# Float32, 16 steps of Adam with batch norm.
TRAINED = (1e-4, 1e-4)


def test_lightning_trains_as_on_cpu(compare):
    result = compare("lightning_trainer", losses=TRAINED, accuracy=(0.0, 0.01), weight=TRAINED, ran_on_device=None)
    assert result["ran_on_device"] == 1.0
