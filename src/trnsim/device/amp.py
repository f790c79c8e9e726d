"""Automatic mixed precision facts."""

from __future__ import annotations

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Dtypes that ``torch.autocast("neuron", dtype=...)`` takes. Source: torchneuron.md section 3."""
    return [torch.float32, torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every NeuronCore computes in bfloat16."""
    return True
