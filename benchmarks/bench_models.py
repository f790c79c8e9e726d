"""Whole models: time, peak memory, and bf16 where the CPU has no native bf16.

python benchmarks/bench_models.py [speed memory bf16]

ResNet-50 inference (batch 1, 224 x 224) and a training step of GPT-2 small (124 M parameters, batch 1, 128 tokens), random
weights, in turns with CPU eager in one process at one thread. Peak memory is that of one fresh process per device. A CPU
without bf16 is emulated by capping oneDNN and ATen at AVX2; on this CPU as it is the bf16 figures are shown without a bar.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.measure import Figure, compared, device_ready, fresh_python, in_turns, ratio, readable, report, typical

WITHOUT_BF16 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
BARS = {"ResNet-50 inference": 1.05, "GPT-2 small training step": 1.05}
MEMORY_BAR = 1.05
BF16_BAR = 10.0


def resnet50(device: str) -> Callable[[], object]:
    """One forward pass without gradients."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    model = ResNetForImageClassification(ResNetConfig(num_labels=1000)).eval().to(device)
    image = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(1)).to(device)

    def run() -> object:
        with torch.inference_mode():
            return model(image).logits.cpu()

    return run


def gpt2(
    device: str, *, dtype: str = "float32", small: bool = False, foreach: bool | None = None
) -> Callable[[], object]:
    """One step of AdamW. `small`: 2 layers, 4,096 words, 64 tokens, for a CPU that takes minutes otherwise."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, vocab_size=4096, eos_token_id=0, bos_token_id=0) if small else GPT2Config()
    model = GPT2LMHeadModel(config).to(getattr(torch, dtype)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=foreach)
    tokens = torch.randint(
        0, config.vocab_size, (1, 64 if small else 128), generator=torch.Generator().manual_seed(1)
    ).to(device)

    def run() -> object:
        optimizer.zero_grad()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


MODELS: dict[str, Callable[[str], Callable[[], object]]] = {
    "ResNet-50 inference": resnet50,
    "GPT-2 small training step": gpt2,
}


def speed() -> list[Figure]:
    """Time of each model against CPU eager."""
    device_ready()
    figures = []
    for name, make in MODELS.items():
        times = in_turns({device: make(device) for device in ("neuron", "cpu")}, rounds=11, seconds=0.0)
        figures.append(compared(name, times, "neuron", "cpu", BARS[name]))
    return figures


def peak_of(name: str, device: str) -> int:
    """Peak resident KiB of this process after three runs."""

    device_ready()
    run = MEMORY[name][0](device)
    for _ in range(3):
        run()
    # Not ru_maxrss: a child inherits that of the process that started it.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


# PyTorch itself takes foreach=True by default on an accelerator and False on the CPU, which costs one more copy of the
# parameters; the bar is for the same algorithm on both.
MEMORY: dict[str, tuple[Callable[[str], Callable[[], object]], float | None]] = {
    "ResNet-50 inference": (resnet50, MEMORY_BAR),
    "GPT-2 small training step": (lambda device: gpt2(device, foreach=False), MEMORY_BAR),
    "GPT-2 small training step, default foreach": (gpt2, None),
}


def memory() -> list[Figure]:
    """Peak resident memory, each device in its own process."""
    code = "from benchmarks import bench_models; print(bench_models.peak_of({!r}, {!r}))"
    figures = []
    for name, (_, bar) in MEMORY.items():
        neuron, cpu = (int(fresh_python(code.format(name, device)).split()[-1]) for device in ("neuron", "cpu"))
        detail = f"neuron {neuron / 1024:.0f} MiB, cpu {cpu / 1024:.0f} MiB"
        figures.append(Figure(name=f"peak memory, {name}", value=neuron / cpu, bar=bar, detail=detail))
    return figures


def bf16_cases(device: str) -> dict[str, Callable[[], object]]:
    """What is computed in bf16."""
    import torch

    generator = torch.Generator().manual_seed(0)
    square = torch.randn(512, 512, generator=generator).bfloat16().to(device)
    image = torch.randn(1, 64, 56, 56, generator=generator).bfloat16().to(device)
    kernel = torch.randn(64, 64, 3, 3, generator=generator).bfloat16().to(device)
    return {
        "bf16 matmul 512": lambda: square @ square,
        "bf16 convolution 64x56x56": lambda: torch.nn.functional.conv2d(image, kernel, padding=1),
        "bf16 GPT-2 step, 2 layers": gpt2(device, dtype="bfloat16", small=True),
    }


def bf16_times() -> dict[str, object]:
    """How much faster the device is, in this process; a slow CPU runs each case twice only."""
    device_ready()
    import torch

    result: dict[str, object] = {"native": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())}
    neuron, cpu = bf16_cases("neuron"), bf16_cases("cpu")
    for name in neuron:
        times = in_turns({"neuron": neuron[name], "cpu": cpu[name]}, rounds=3, seconds=0.0, warmup=1)
        result[name] = (1 / ratio(times, "neuron", "cpu"), typical(times["neuron"]), typical(times["cpu"]))
    return result


def bf16() -> list[Figure]:
    """bf16 on a CPU without it (emulated) and on this one."""
    code = "from benchmarks import bench_models; import json; print(json.dumps(bench_models.bf16_times()))"
    figures = []
    for label, environment, bar in (("AVX2 only", WITHOUT_BF16, BF16_BAR), ("this CPU", {}, None)):
        result = json.loads(fresh_python(code, **environment).splitlines()[-1])
        native = result.pop("native")
        label = f"{label}, {'native bf16' if native else 'no native bf16'}"
        for name, (faster, neuron, cpu) in result.items():
            detail = f"neuron {readable(neuron)}, cpu {readable(cpu)}"
            figures.append(Figure(name=f"{name}, {label}", value=faster, bar=bar, detail=detail, more_is_better=True))
    return figures


def main(parts: list[str]) -> int:
    measured = {"speed": speed, "memory": memory, "bf16": bf16}
    return report("models", [figure for part in parts or measured for figure in measured[part]()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
