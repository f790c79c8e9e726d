"""A small vision transformer of transformers (random weights): training with autocast to bfloat16, GradScaler and dropout."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import ViTConfig, ViTForImageClassification

STEPS, BATCH, SIZE, CLASSES = 8, 4, 32, 10


def run(device: str, *, dropout: float = 0.0) -> dict[str, torch.Tensor | float]:
    """Train, then evaluate in float32. Dropout draws from the device's own generator, so equality with the CPU needs 0."""
    torch.manual_seed(0)
    kind = torch.device(device).type
    config = ViTConfig(
        hidden_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=192,
        image_size=SIZE,
        patch_size=8,
        num_labels=CLASSES,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = ViTForImageClassification(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(kind, init_scale=256.0)
    images, labels = torch.randn(BATCH, 3, SIZE, SIZE).to(device), (torch.arange(BATCH) % CLASSES).to(device)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(kind, dtype=torch.bfloat16):
            scores = model(pixel_values=images).logits
            loss = torch.nn.functional.cross_entropy(scores, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach().float())
    model.eval()
    with torch.no_grad():
        evaluated = model(pixel_values=images).logits
    return {"losses": torch.stack(losses).cpu(), "evaluated": evaluated.cpu(), "scale": float(scaler.get_scale())}


def main() -> None:
    """Print the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    losses = run(device, dropout=0.1)["losses"]
    assert isinstance(losses, torch.Tensor)
    print(f"vit on {device}: loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f} in {STEPS} steps of bf16 autocast")


if __name__ == "__main__":
    main()
