"""An LSTM language model with tied weights and an optimizer built before the move."""

from __future__ import annotations

# 30 steps of Adam through 24 time steps amplify a last-bit difference of the device's own cell about 100-fold.
TRAINED = (1e-4, 1e-4)


def test_lstm_trains_and_writes_as_on_cpu(compare):
    result = compare("lstm", losses=TRAINED, embedding=(1e-3, 1e-3), continuation=None, tied=None)
    assert result["tied"] == 1.0
    assert result["losses"][-1] < 0.2 * result["losses"][0]
