"""Lightning's Trainer on any device of torch.accelerator, through an accelerator of forty lines that a user would write."""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import Any

import lightning
import torch
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, SAMPLES, BATCH, FEATURES, CLASSES = 2, 128, 16, 20, 4


class TorchAccelerator(Accelerator):
    """One device of whatever torch.accelerator names."""

    def setup_device(self, device: torch.device) -> None:
        """Make it the current device."""
        if device.type != "cpu":
            torch.accelerator.set_device_index(device.index or 0)

    def teardown(self) -> None:
        """Give unused memory back."""
        if torch.accelerator.is_available():
            torch.accelerator.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """What the allocator counts."""
        return dict(torch.accelerator.memory_stats(device)) if torch.accelerator.is_available() else {}

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        """A number of devices."""
        return devices

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        """The first devices."""
        kind = torch.accelerator.current_accelerator()
        return [torch.device(kind.type if kind else "cpu", i) for i in range(int(devices))]

    @staticmethod
    def auto_device_count() -> int:
        """All of them."""
        return max(torch.accelerator.device_count(), 1)

    @staticmethod
    def is_available() -> bool:
        """The CPU is always there."""
        return True

    @staticmethod
    def name() -> str:
        """As users may write it."""
        return "torch"


class Classifier(lightning.LightningModule):
    """A small perceptron with batch norm that remembers its losses."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Linear(64, CLASSES))
        self.losses: list[torch.Tensor] = []

    def training_step(self, batch: Any, _index: int) -> torch.Tensor:
        """Cross entropy."""
        inputs, labels = batch
        loss = nn.functional.cross_entropy(self.net(inputs), labels)
        self.losses.append(loss.detach())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, _index: int) -> None:
        """Accuracy."""
        inputs, labels = batch
        self.log("accuracy", (self.net(inputs).argmax(-1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Fit for two epochs; losses, the validation accuracy and the final weights."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    lightning.seed_everything(0, verbose=False)
    inputs = torch.randn(SAMPLES, FEATURES)
    labels = (inputs[:, :CLASSES].argmax(-1)).long()
    order = torch.Generator().manual_seed(2)
    training = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True, generator=order)
    validation = DataLoader(TensorDataset(inputs, labels), batch_size=SAMPLES)
    place = torch.device(device)
    trainer = lightning.Trainer(
        devices=1,
        strategy=SingleDeviceStrategy(device=place, accelerator=TorchAccelerator()),
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    model = Classifier()
    trainer.fit(model, training, validation)
    return {
        "losses": torch.stack([loss.cpu() for loss in model.losses]),
        "accuracy": float(trainer.callback_metrics["accuracy"]),
        "weight": model.net[0].weight.detach().cpu(),
        "ran_on_device": float(model.losses[0].device.type == place.type),
    }


def main() -> None:
    """Print the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    result = run(device)
    losses = result["losses"]
    assert isinstance(losses, torch.Tensor)
    first, last = float(losses[0]), float(losses[-1])
    print(f"lightning_trainer on {device}: loss {first:.4f} -> {last:.4f}, accuracy {result['accuracy']:.3f}")


if __name__ == "__main__":
    main()
