"""A ResNet trained with bf16 autocast and GradScaler."""

from __future__ import annotations

# One bfloat16 rounding is 2^-8 = 0.4 %. The device's convolution accumulates in float32 and rounds once, the CPU's may round
# otherwise; eight steps with batch norm on 8 images amplify that to a few per cent.
BF16_TRAINED = (5e-2, 5e-2)


def test_resnet_trains_as_on_cpu(compare):
    result = compare("resnet", losses=BF16_TRAINED, evaluated=(2e-1, 2e-1), scale=None, autocast_is_bfloat16=None)
    assert result["autocast_is_bfloat16"] == 1.0
    assert result["losses"][-1] < 0.6 * result["losses"][0]
