"""Hugging Face accelerate on the device that ACCELERATE_TORCH_DEVICE names: gradient accumulation, clipping, a scheduler."""

from __future__ import annotations

import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, BATCH, FEATURES = 128, 8, 12


def run(device: str) -> dict[str, torch.Tensor | float]:
    """One epoch of a regression; losses, the gathered predictions and the final weights."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = device
    AcceleratorState._reset_state(True)  # so that run() can be called again in one process with another device
    GradientState._reset_state()
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.LayerNorm(64), nn.SiLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=16)
    inputs = torch.randn(SAMPLES, FEATURES)
    targets = torch.sin(inputs.sum(1, keepdim=True))
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for batch, wanted in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(batch), wanted)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    model.eval()
    with torch.no_grad():
        predictions = accelerator.gather_for_metrics(model(inputs.to(accelerator.device)))
    weights = accelerator.get_state_dict(model)
    return {
        "losses": torch.stack(losses).cpu(),
        "predictions": predictions.cpu(),
        "weight": weights["0.weight"].cpu(),
        "ran_on_device": float(losses[0].device.type == torch.device(device).type),
    }


def main() -> None:
    """Print the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    losses = run(device)["losses"]
    assert isinstance(losses, torch.Tensor)
    print(f"accelerate_training on {device}: loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f}")


if __name__ == "__main__":
    main()
