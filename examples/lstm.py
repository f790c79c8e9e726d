"""A character language model: embedding, two-layer LSTM, tied softmax; training by truncated backpropagation, then sampling."""

from __future__ import annotations

import argparse

import torch
from torch import nn

TEXT = (
    "the quick brown fox jumps over the lazy dog while the five boxing wizards jump quickly "
    "and pack my box with five dozen liquor jugs as the sphinx of black quartz judges my vow "
) * 8
LETTERS = sorted(set(TEXT))
STEPS, BATCH, LENGTH, WIDTH = 30, 8, 24, 64


class Model(nn.Module):
    """The softmax shares its weights with the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, len(LETTERS))
        self.head.weight = self.embedding.weight

    def forward(
        self, tokens_BT: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Logits (batch, time, letter) and the state to go on with."""
        hidden_BTD, state = self.lstm(self.embedding(tokens_BT), state)
        return self.head(hidden_BTD), state


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Losses, the greedy continuation, and whether the tied weights stayed tied on the device."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)  # built before the move, as many scripts do
    model.to(device)
    codes = torch.tensor([LETTERS.index(c) for c in TEXT])
    rows = codes[: len(codes) // BATCH * BATCH].view(BATCH, -1).to(device)
    state, losses = None, []
    for step in range(STEPS):
        start = step * LENGTH % (rows.size(1) - LENGTH - 1)
        inputs, targets = rows[:, start : start + LENGTH], rows[:, start + 1 : start + LENGTH + 1]
        logits, state = model(inputs, state)
        state = (state[0].detach(), state[1].detach())
        loss = nn.functional.cross_entropy(logits.reshape(-1, len(LETTERS)), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    model.eval()
    letters, state = rows[:1, :1], None
    continuation = []
    with torch.no_grad():
        for _ in range(24):
            logits, state = model(letters, state)
            letters = logits[:, -1].argmax(-1, keepdim=True)
            continuation.append(letters)
    return {
        "losses": torch.stack(losses).cpu(),
        "embedding": model.embedding.weight.detach().cpu(),
        "continuation": torch.cat(continuation, 1).cpu(),
        "tied": float(model.head.weight is model.embedding.weight),
    }


def main() -> None:
    """Print the losses and what the model writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    result = run(device)
    losses, continuation = result["losses"], result["continuation"]
    assert isinstance(losses, torch.Tensor)
    assert isinstance(continuation, torch.Tensor)
    print("writes:", repr("".join(LETTERS[i] for i in continuation[0].tolist())))
    print(f"lstm on {device}: loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f} in {STEPS} steps")


if __name__ == "__main__":
    main()
