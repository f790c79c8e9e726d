"""A diffusion UNet: convolutions, group norm, attention, up- and downsampling, and DDIM sampling."""

from __future__ import annotations

# Ten steps of AdamW in float32, then ten sampling steps that divide by small numbers.
TRAINED = (1e-4, 1e-4)


def test_unet_trains_and_samples_as_on_cpu(compare):
    result = compare("diffusion_unet", losses=TRAINED, sample=(1e-3, 1e-3))
    assert result["losses"][-1] < 0.8 * result["losses"][0]
