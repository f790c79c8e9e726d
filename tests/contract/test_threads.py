"""Threads: moves, ops, autograd's own threads, streams per thread, GIL, counts that stay exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from trnsim import ledger

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def in_threads(work: Callable[[int], object], count: int = 8) -> list[object]:
    with ThreadPoolExecutor(count) as pool:
        return [future.result(60) for future in [pool.submit(work, index) for index in range(count)]]


def test_eight_threads_move_tensors():
    before = torch.neuron.memory_allocated()

    def work(seed: int) -> bool:
        for n in range(1, 60):
            x = torch.arange(n * 50) + seed
            if not torch.equal((x.to("neuron") + 1).cpu(), x + 1):
                return False
        return True

    assert all(in_threads(work))
    assert torch.neuron.memory_allocated() == before


def test_eight_threads_move_one_model():
    model = torch.nn.Linear(64, 64)
    expected = model.weight.detach().clone()

    def work(index: int) -> bool:
        twin = torch.nn.Linear(64, 64)
        twin.load_state_dict(model.state_dict())
        return torch.equal(twin.to(f"neuron:{index % 4}").weight.cpu(), expected)

    assert all(in_threads(work))


def test_first_use_from_eight_threads_at_once(run_python):
    run_python(
        """
        import threading
        barrier = threading.Barrier(8)
        results = []
        def work(i):
            barrier.wait()
            results.append((torch.ones(100).to("neuron") * i).sum().item())
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in threads]; [t.join(30) for t in threads]
        assert sorted(results) == [100.0 * i for i in range(8)], results
        """
    )


def test_threads_train_models_of_their_own():
    def train(device: str, seed: int) -> list[torch.Tensor]:
        weight = torch.linspace(-1, 1, 64).reshape(8, 8).mul(seed + 1).to(device).requires_grad_()
        x = torch.linspace(0, 1, 32).reshape(4, 8).to(device)
        for _ in range(5):
            (x @ weight).tanh().square().sum().backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
        return [weight.detach().cpu()]

    ours = in_threads(lambda seed: train("neuron", seed), 4)
    for seed, result in enumerate(ours):
        torch.testing.assert_close(result, train("cpu", seed))


def test_backward_of_one_graph_from_four_threads():
    x = torch.ones(8, device="neuron", requires_grad=True)

    def work(_: int) -> None:
        for _ in range(20):
            (x * 2).sum().backward()

    in_threads(work, 4)
    assert x.grad.device.type == "neuron" and x.grad[0].item() in range(2, 161)


@pytest.mark.parametrize("own_thread", [False, True])
def test_backward_runs_on_the_device_of_its_tensors(own_thread):
    """In the calling thread unless the program asks for autograd's own threads."""
    seen = []
    x = torch.ones(2, device="neuron:1", requires_grad=True)
    with torch.autograd.set_multithreading_enabled(own_thread):
        y = x * 2
        y.register_hook(lambda grad: seen.append((threading.get_ident(), grad.device.index)))
        y.sum().backward()
    assert (seen[0][0] != threading.get_ident()) == own_thread and seen[0][1] == 1
    assert torch.equal(x.grad.cpu(), torch.full((2,), 2.0)) and torch.neuron.current_device() == 0


def test_backward_over_several_devices():
    x = torch.ones(2, device="neuron:0", requires_grad=True)
    y = (x * 2).to("neuron:1") * 3
    z = y.to("cpu") * 5
    z.sum().backward()
    assert x.grad.tolist() == [30, 30] and x.grad.device.index == 0


def test_backward_uses_the_forwards_stream():
    side = torch.neuron.Stream()
    x = torch.ones(2, device="neuron", requires_grad=True)
    seen = []
    with torch.neuron.stream(side):
        y = x * 2
    y.register_hook(lambda grad: seen.append(torch.neuron.current_stream().stream_id))
    y.sum().backward()
    assert seen == [side.stream_id] or seen == [0]
    assert x.grad.tolist() == [2, 2]


def test_each_thread_has_its_own_current_stream():
    side = torch.neuron.Stream()
    with torch.neuron.stream(side):
        (other,) = in_threads(lambda _: torch.neuron.current_stream().stream_id, 1)
        assert torch.neuron.current_stream() == side and other == 0


def test_counts_are_exact_under_threads():
    x = torch.ones(3, device="neuron")
    x.sinh()
    with ledger.record() as session:
        in_threads(lambda _: [x.sinh() for _ in range(200)])
    (stat,) = [stat for stat in session.ops() if stat.op == "aten::sinh"]
    assert stat.count == 1600


def test_python_goes_on_while_an_op_runs():
    """Kernels release the GIL, as on every device: another thread makes progress during a long op."""
    x = torch.ones(600, 600, device="neuron")
    x @ x
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(1)
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.01)
    before = len(ticks)
    torch.linalg.svd(x + torch.eye(600, device="neuron"))
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during > 5


def test_error_in_one_thread_does_not_reach_others():
    def work(index: int) -> float:
        x = torch.ones(3, device="neuron")
        if index % 2:
            with pytest.raises(IndexError):
                x[7]
        return (x + index).sum().item()

    assert in_threads(work) == [3.0 + 3 * index for index in range(8)]


def test_storage_made_in_one_thread_freed_in_another():
    before = torch.neuron.memory_allocated()
    tensors = in_threads(lambda _: [torch.empty(1000, device="neuron") for _ in range(50)])
    in_threads(lambda index: tensors[index].clear())
    assert torch.neuron.memory_allocated() == before
