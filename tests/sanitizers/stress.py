"""Threads that use every piece of the core at once, for a build with ThreadSanitizer or AddressSanitizer.

    python tools/sanitize.py thread     builds, runs this under the sanitizer, and counts what it reports in our code

Run plainly it is a quick check that results stay right under load: python tests/sanitizers/stress.py [rounds] [threads]
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

if not hasattr(torch, "neuron"):
    import trnsim

    trnsim._autoload()

from trnsim import ledger

NEURON = "neuron"


def copies(seed: int) -> None:
    """Module.to and .to from many threads, both ways."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 33, generator=generator)
    assert torch.equal(x.to(NEURON).t().contiguous().cpu(), x.t())
    pinned = x.pin_memory()
    assert torch.equal(pinned.to(NEURON, non_blocking=True).cpu(), x)
    module = torch.nn.Linear(33, 8)
    expected = module(x)
    assert torch.allclose(module.to(NEURON)(x.to(NEURON)).cpu(), expected, atol=1e-5)


def new_shapes(seed: int) -> None:
    """Keys seen for the first time: the crossing into Python, racing with the other threads."""
    for step in range(6):
        x = torch.ones(1 + seed % 13, 1 + step + seed % 7, device=NEURON)
        assert (x + 1).sum().item() == 2 * x.numel()


def training(seed: int) -> None:
    """Forward and backward, which runs on autograd's own thread."""
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(*sizes, generator=generator) for sizes in ((16, 8), (8, 4), (16, 4))]
    gradients = []
    for device in ("cpu", NEURON):
        x, weight, target = (part.to(device, copy=True) for part in parts)
        weight.requires_grad_()
        optimizer = torch.optim.AdamW([weight], lr=0.01, foreach=True)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(torch.tanh(x @ weight), target).backward()
            optimizer.step()
        gradients.append(weight.detach().cpu())
    assert torch.allclose(*gradients, atol=1e-5)


def allocations(seed: int) -> None:
    """Blocks of every class, freed in another order and by other threads; statistics and snapshots meanwhile."""
    held = [torch.empty(1 << (8 + (seed + step) % 15), dtype=torch.uint8, device=NEURON) for step in range(24)]
    for tensor in held[::3]:
        tensor.fill_(seed % 200)
    assert all(int(tensor[-1]) == seed % 200 for tensor in held[::3])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    torch.neuron.memory_stats()
    torch.accelerator.memory.max_memory_allocated()
    if seed % 5 == 0:
        torch.neuron.empty_cache()


def out_of_memory(seed: int) -> None:
    """The error path, with its walk over all blocks."""
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device=NEURON)
    except torch.OutOfMemoryError:
        return
    raise AssertionError("a tebibyte fitted")


def streams(seed: int) -> None:
    """Streams, events and record_stream."""
    stream = torch.neuron.Stream()
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    with torch.neuron.stream(stream):
        start.record()
        x = torch.ones(64, device=NEURON) * seed
        end.record()
    x.record_stream(stream)
    torch.neuron.current_stream().wait_stream(stream)
    del x
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


def generators(seed: int) -> None:
    """One generator per thread is exact; the shared default one must only stay whole."""
    mine = torch.Generator(device=NEURON).manual_seed(seed)
    first = torch.rand(32, device=NEURON, generator=mine)
    again = torch.rand(32, device=NEURON, generator=mine.manual_seed(seed))
    assert torch.equal(first, again)
    torch.randn(16, device=NEURON)
    torch.neuron.get_rng_state()
    torch.nn.functional.dropout(first, 0.5)


def recording(seed: int) -> None:
    """The ledger switched on and off and read while others run."""
    with ledger.record() as session:
        (torch.ones(8, device=NEURON) + seed).sum().item()
        torch.ones(4, dtype=torch.int64, device=NEURON).double().sort()
    assert session.syncs()
    session.ops()
    session.fallbacks()


def views(seed: int) -> None:
    """Views of one storage from several threads' tensors, resize and set_."""
    base = torch.arange(64.0, device=NEURON)
    view = base.view(8, 8).t()[1:3]
    view.add_(1)
    assert base.sum().item() == 64 * 63 / 2 + 16
    other = torch.empty(0, device=NEURON)
    other.resize_(128).fill_(1)
    other.set_(base.untyped_storage(), 2, (4,), (1,))
    assert other.tolist() == [3.0, 3.0, 4.0, 5.0]


JOBS: tuple[Callable[[int], None], ...] = (
    copies, new_shapes, training, allocations, out_of_memory, streams, generators, recording, views,
)  # fmt: skip


def main(rounds: int, threads: int) -> int:
    """Run every job `rounds` times on each thread, in another order on each; the number of failures."""
    failures: list[str] = []
    barrier = threading.Barrier(threads)

    def work(number: int) -> None:
        barrier.wait()
        for turn in range(rounds):
            for step in range(len(JOBS)):
                job = JOBS[(step * (1 + number % 2) + number) % len(JOBS)]
                try:
                    job(number * 1000 + turn * 10 + step)
                except BaseException as error:
                    failures.append(f"{job.__name__}: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for failure in failures[:20]:
        print("FAILED", failure)
    print(f"stress: {threads} threads x {rounds} rounds x {len(JOBS)} jobs, {len(failures)} failures")
    return min(len(failures), 100)


if __name__ == "__main__":
    count, workers = (int(value) for value in (sys.argv[1:] + ["5", "8"][len(sys.argv) - 1 :])[:2])
    sys.exit(main(count, workers))
