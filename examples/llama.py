"""A small Llama of transformers (random weights): 20 training steps, then greedy generation with a dynamic and a static cache."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, LENGTH, BATCH, STEPS, NEW_TOKENS = 256, 32, 8, 20, 16


def build() -> LlamaForCausalLM:
    """Two layers, grouped-query attention, 128 wide; weights drawn on the CPU."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config)


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Losses of the training steps, the trained logits, and the generated tokens."""
    model = build().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(STEPS):
        starts = torch.randint(2, VOCABULARY, (BATCH, 1), generator=generator)
        tokens = ((starts + 3 * torch.arange(LENGTH)) % (VOCABULARY - 2) + 2).to(device)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())

    model.eval()
    prompt = ((torch.tensor([[5], [90]]) + 3 * torch.arange(8)) % (VOCABULARY - 2) + 2).to(device)
    mask = torch.ones_like(prompt)
    with torch.no_grad():
        logits = model(input_ids=prompt).logits
        dynamic = model.generate(prompt, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False)
        static = model.generate(
            prompt,
            attention_mask=mask,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            cache_implementation="static",
        )
    return {
        "losses": torch.stack(losses).cpu(),
        "logits": logits.cpu(),
        "dynamic": dynamic.cpu(),
        "static": static.cpu(),
    }


def main() -> None:
    """Print the first and last loss and one generated sequence."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    result = run(device)
    losses, dynamic, static = result["losses"], result["dynamic"], result["static"]
    assert isinstance(losses, torch.Tensor)
    assert isinstance(dynamic, torch.Tensor)
    assert isinstance(static, torch.Tensor)
    print("generated:", dynamic[0].tolist())
    same = "equal" if torch.equal(dynamic, static) else "DIFFERENT"
    print(f"llama on {device}: loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f}, static and dynamic cache {same}")


if __name__ == "__main__":
    main()
