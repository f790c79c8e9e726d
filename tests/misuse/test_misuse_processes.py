"""Processes and threads: fork after initialisation, DataLoader workers, recursion, exits."""

from __future__ import annotations

import os
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
import torch

Run = Callable[..., CompletedProcess[str]]


def in_fork(action: Callable[[], object]) -> str:
    """What `action` raises in a forked child, as text; "" when it does not raise."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            text = ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


FORKED: dict[str, Callable[[torch.Tensor], object]] = {
    "create": lambda x: torch.ones(2, device="neuron"),
    "compute": lambda x: x + 1,
    "copy to the device": lambda x: torch.ones(2).to("neuron"),
    "copy to the host": lambda x: x.cpu(),
    "item": lambda x: x.sum().item(),
    "synchronize": lambda x: torch.neuron.synchronize(),
    "new stream": lambda x: torch.neuron.Stream(),
    "module": lambda x: torch.nn.Linear(2, 2).to("neuron"),
    "pinned memory": lambda x: torch.ones(2).pin_memory(device="neuron"),
    "manual_seed": lambda x: torch.rand(2, device="neuron"),
}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*pin_memory.*")
@pytest.mark.parametrize("name", FORKED)
def test_fork_after_the_device_was_used(name: str) -> None:
    x = torch.ones(2, device="neuron")
    text = in_fork(lambda: FORKED[name](x))
    for part in ("forked", "spawn", "multiprocessing_context='spawn'"):
        assert part in text, f"{name}: {text!r}"
    assert text.startswith(("RuntimeError", "ForkError")), text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sees_no_device() -> None:
    torch.ones(2, device="neuron")

    def ask() -> None:
        raise KeyError(torch.neuron.device_count(), torch.neuron.is_available())

    assert "(0, False)" in in_fork(ask)


def test_fork_before_the_device_is_used_is_fine(run_python: Run) -> None:
    done = run_python(
        """
        import os
        child = os.fork()
        x = torch.ones(2, device="neuron") + 1
        print(os.getpid(), x.tolist(), flush=True)
        if child: os.waitpid(child, 0)
        """
    )
    assert done.stdout.count("[2.0, 2.0]") == 2, done.stdout + done.stderr


class OnDevice(torch.utils.data.Dataset[torch.Tensor]):
    """A dataset that wrongly makes its items on the device."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index), device="neuron")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_device_tensors_made_in_a_forked_worker() -> None:
    torch.ones(1, device="neuron")
    loader = torch.utils.data.DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork", timeout=60)
    with pytest.raises(RuntimeError, match=r"(?s)worker process.*forked.*spawn"):
        list(loader)


def test_device_tensors_without_workers_are_fine() -> None:
    batches = list(torch.utils.data.DataLoader(OnDevice(), batch_size=2))
    assert [batch.tolist() for batch in batches] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]


def test_pinning_device_tensors_in_a_data_loader() -> None:
    """pin_memory=True with items that live on the device: PyTorch's message, not a crash."""
    loader = torch.utils.data.DataLoader(OnDevice(), pin_memory=True)
    with pytest.raises(RuntimeError, match="pin"):
        list(loader)


class Recursive(torch.autograd.Function):
    """Backward runs backward again, `depth` times."""

    @staticmethod
    def forward(ctx, x, depth):  # type: ignore[no-untyped-def]
        ctx.depth = depth
        return x * 1

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        if ctx.depth > 0:
            with torch.enable_grad():
                y = torch.ones(1, device=gradient.device, requires_grad=True)
                Recursive.apply(y, ctx.depth - 1).sum().backward()
        return gradient, None


def test_deeply_nested_backward_works() -> None:
    x = torch.ones(1, device="neuron", requires_grad=True)
    Recursive.apply(x, 80).sum().backward()
    assert x.grad is not None and x.grad.item() == 1


def test_endless_recursion_through_the_dispatcher() -> None:
    class Endless(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return args[0] + args[0]

    x = torch.ones(1, device="neuron").as_subclass(Endless)
    with pytest.raises(RecursionError):
        x + x


def test_a_thread_that_fails_leaves_the_others_alone() -> None:
    import threading

    errors: list[BaseException] = []
    sums: list[float] = []

    def wrong() -> None:
        try:
            torch.ones(3, device="neuron") + torch.ones(4, device="neuron")
        except RuntimeError as error:
            errors.append(error)

    def right() -> None:
        sums.append((torch.ones(100, device="neuron") * 2).sum().item())

    threads = [threading.Thread(target=target) for target in [wrong, right] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 4 and sums == [200.0] * 4


def test_a_program_that_ends_with_an_error_ends_cleanly(run_python: Run) -> None:
    done = run_python(
        """
        kept = [torch.ones(3, device="neuron", requires_grad=True) for _ in range(3)]
        stream = torch.neuron.Stream()
        kept[0] + torch.ones(4, device="neuron")
        """,
        check=False,
    )
    assert done.returncode == 1 and "size of tensor" in done.stderr, (done.returncode, done.stderr[-500:])
    assert "terminate" not in done.stderr and "Segmentation" not in done.stderr
