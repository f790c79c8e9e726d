"""A diffusion model's UNet written out (convolution, group norm, SiLU, attention, time embedding, up- and downsampling).

It learns to predict the noise of a few images, then samples by ten DDIM steps.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

STEPS, BATCH, SIZE, WIDTH, TIMES = 10, 4, 16, 32, 100


class Residual(nn.Module):
    """Group norm, SiLU, convolution, twice, with the time added between."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inside), nn.GroupNorm(8, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(4 * WIDTH, outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x_NCHW: torch.Tensor, time_NE: torch.Tensor) -> torch.Tensor:
        """Images or features, and the embedding E of their time."""
        y_NCHW = self.conv1(F.silu(self.norm1(x_NCHW))) + self.time(F.silu(time_NE))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y_NCHW))) + self.skip(x_NCHW)


class Attention(nn.Module):
    """Self-attention over the pixels, four heads."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        """Attend, and add to the input."""
        n, c, h, w = x_NCHW.shape
        q, k, v = (
            self.qkv(self.norm(x_NCHW)).reshape(n, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        )
        y_NCHW = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(n, c, h, w)
        return x_NCHW + self.out(y_NCHW)


class UNet(nn.Module):
    """Two resolutions, attention at the lower one."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, 4 * WIDTH))
        self.enter = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down = Residual(WIDTH, WIDTH)
        self.shrink = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.middle1, self.attention, self.middle2 = (
            Residual(WIDTH, 2 * WIDTH),
            Attention(2 * WIDTH),
            Residual(2 * WIDTH, WIDTH),
        )
        self.grow = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.up = Residual(2 * WIDTH, WIDTH)
        self.leave = nn.Sequential(nn.GroupNorm(8, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, 3, 3, padding=1))

    def forward(self, x_NCHW: torch.Tensor, time_N: torch.Tensor) -> torch.Tensor:
        """The predicted noise."""
        frequencies = torch.exp(-math.log(1e4) * torch.arange(WIDTH // 2, device=x_NCHW.device) / (WIDTH // 2))
        angles = time_N[:, None].float() * frequencies
        time_NE = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        high = self.down(self.enter(x_NCHW), time_NE)
        low = self.middle2(self.attention(self.middle1(self.shrink(high), time_NE)), time_NE)
        low = self.grow(F.interpolate(low, scale_factor=2.0, mode="nearest"))
        return self.leave(self.up(torch.cat([high, low], dim=1), time_NE))


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Losses of the training steps and the sampled images."""
    torch.manual_seed(0)
    model = UNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    kept = (
        torch.cos(torch.linspace(0, math.pi / 2 - 0.01, TIMES)).square().to(device)
    )  # share of the image left at each time
    images = torch.rand(BATCH, 3, SIZE, SIZE) * 2 - 1
    losses = []
    for _ in range(STEPS):
        times, noise = torch.randint(0, TIMES, (BATCH,)).to(device), torch.randn(images.shape).to(device)
        share = kept[times][:, None, None, None]
        noisy = share.sqrt() * images.to(device) + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(noisy, times), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    sample = torch.randn(2, 3, SIZE, SIZE).to(device)
    with torch.inference_mode():
        for time in range(TIMES - 1, 0, -TIMES // 10):
            noise = model(sample, torch.full((2,), time, device=device))
            clean = ((sample - (1 - kept[time]).sqrt() * noise) / kept[time].sqrt()).clamp(-1, 1)
            earlier = kept[max(time - TIMES // 10, 0)]
            sample = earlier.sqrt() * clean + (1 - earlier).sqrt() * noise
    return {"losses": torch.stack(losses).cpu(), "sample": sample.cpu()}


def main() -> None:
    """Print the losses and the spread of the sampled pixels."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    result = run(device)
    losses, sample = result["losses"], result["sample"]
    assert isinstance(losses, torch.Tensor)
    assert isinstance(sample, torch.Tensor)
    first, last, spread = float(losses[0]), float(losses[-1]), float(sample.std())
    print(f"diffusion_unet on {device}: loss {first:.4f} -> {last:.4f}, pixels spread {spread:.4f}")


if __name__ == "__main__":
    main()
