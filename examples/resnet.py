"""A small ResNet written out: training with autocast to bfloat16, GradScaler, SGD with momentum, channels-last inputs."""

from __future__ import annotations

import argparse
import itertools

import torch
from torch import nn

STEPS, BATCH, SIZE, CLASSES = 8, 8, 32, 10


class Block(nn.Module):
    """Two 3x3 convolutions with batch norm and a residual, as in He et al. 2015."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride=stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        """N images, C channels, height, width."""
        y_NCHW = torch.relu_(self.norm1(self.conv1(x_NCHW)))
        return torch.relu(self.norm2(self.conv2(y_NCHW)) + self.shortcut(x_NCHW))


class ResNet(nn.Module):
    """Stem, three stages of two blocks, average pool, classifier."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        widths = [width, width, 2 * width, 4 * width]
        blocks: list[nn.Module] = []
        for i, (inside, outside) in enumerate(itertools.pairwise(widths)):
            blocks += [Block(inside, outside, 1 if i == 0 else 2), Block(outside, outside, 1)]
        self.stages = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], CLASSES)

    def forward(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        features_NC = nn.functional.adaptive_avg_pool2d(self.stages(self.stem(images_NCHW)), 1).flatten(1)
        return self.head(features_NC)


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Train, then evaluate in float32 with the running statistics."""
    torch.manual_seed(0)
    kind = torch.device(device).type
    model = ResNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    scaler = torch.amp.GradScaler(kind, init_scale=1024.0)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    images = torch.randn(BATCH, 3, SIZE, SIZE)
    labels = torch.arange(BATCH) % CLASSES
    images, labels = images.to(device).contiguous(memory_format=torch.channels_last), labels.to(device)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(kind, dtype=torch.bfloat16):
            scores = model(images)
            loss = loss_of(scores, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach().float())
    model.eval()
    with torch.no_grad():
        evaluated = model(images)
    return {
        "losses": torch.stack(losses).cpu(),
        "evaluated": evaluated.cpu(),
        "scale": float(scaler.get_scale()),
        "autocast_is_bfloat16": float(scores.dtype == torch.bfloat16),
    }


def main() -> None:
    """Print the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    losses = run(device)["losses"]
    assert isinstance(losses, torch.Tensor)
    print(
        f"resnet on {device}: loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f} in {STEPS} steps of bf16 autocast"
    )


if __name__ == "__main__":
    main()
