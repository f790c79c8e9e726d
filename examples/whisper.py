"""A small Whisper of transformers (random weights): log-mel of a made sound, training steps, then generate."""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration, logging

STEPS, BATCH, RATE, SECONDS, MELS, FRAMES, VOCABULARY = 6, 2, 16_000, 1.0, 40, 100, 64
HOP, WINDOW = 160, 400


def build() -> WhisperForConditionalGeneration:
    """Two encoder and two decoder layers, 64 wide; weights drawn on the CPU."""
    config = WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=MELS,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=FRAMES // 2,
        max_target_positions=32,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(config)
    model.generation_config.eos_token_id = None  # random weights: generate to the full length
    return model


def log_mel(sound_BT: torch.Tensor) -> torch.Tensor:
    """Log power in triangular bands of a short-time Fourier transform, computed on the sound's device."""
    window = torch.hann_window(WINDOW, device=sound_BT.device)
    spectrum = torch.stft(sound_BT, WINDOW, HOP, window=window, return_complex=True).abs().square()[..., :FRAMES]
    centres = torch.linspace(0, spectrum.size(1) - 1, MELS + 2, device=sound_BT.device)
    bins = torch.arange(spectrum.size(1), device=sound_BT.device)
    rise = (bins - centres[:-2, None]) / (centres[1:-1] - centres[:-2])[:, None]
    fall = (centres[2:, None] - bins) / (centres[2:] - centres[1:-1])[:, None]
    bands = torch.minimum(rise, fall).clamp(min=0) @ spectrum
    return torch.log10(bands.clamp(min=1e-10)) / 4 + 1


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Features, losses of the training steps, and the generated tokens."""
    logging.set_verbosity_error()
    model = build().to(device).train()
    generator = torch.Generator().manual_seed(1)
    times = torch.arange(int(RATE * SECONDS)) / RATE
    pitch = torch.tensor([[220.0], [523.0]])
    sound = torch.sin(2 * math.pi * pitch * times) + 0.05 * torch.randn(BATCH, times.numel(), generator=generator)
    features = log_mel(sound.to(device))
    labels = torch.randint(3, VOCABULARY, (BATCH, 12), generator=generator).to(device)
    labels[:, -2:] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(STEPS):
        loss = model(input_features=features, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    model.eval()
    with torch.no_grad():
        tokens = model.generate(input_features=features, max_new_tokens=12, do_sample=False)
    return {"features": features.cpu(), "losses": torch.stack(losses).cpu(), "tokens": tokens.cpu()}


def main() -> None:
    """Print the losses and the tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    result = run(device)
    losses, tokens = result["losses"], result["tokens"]
    assert isinstance(losses, torch.Tensor)
    assert isinstance(tokens, torch.Tensor)
    print("tokens:", tokens[0].tolist())
    print(f"whisper on {device}: loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f} in {STEPS} steps")


if __name__ == "__main__":
    main()
