"""A vision transformer trained with bf16 autocast and GradScaler."""

from __future__ import annotations

# One bfloat16 rounding is 2^-8 = 0.4 %; eight steps of AdamW amplify it to a few per cent.
BF16_TRAINED = (5e-2, 2e-2)


def test_vit_trains_as_on_cpu(compare):
    result = compare("vit", losses=BF16_TRAINED, evaluated=(1e-1, 1e-1), scale=None)
    assert result["losses"][-1] < 0.7 * result["losses"][0]
