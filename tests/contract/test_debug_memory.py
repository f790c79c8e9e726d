"""Debug memory (TRNSIM_DEBUG_MEMORY=1): fresh memory is NaN, a stray host read faults, programs run unchanged."""

from __future__ import annotations

import signal

DEBUG = {"TRNSIM_DEBUG_MEMORY": "1"}


def test_fresh_memory_is_poisoned(run_python):
    run_python(
        """
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            assert torch.empty(1000, dtype=dtype, device="neuron").isnan().all().item(), dtype
        assert torch.empty(10, dtype=torch.int32, device="neuron").tolist() == [-1] * 10
        x = torch.ones(1000, device="neuron")
        del x
        assert torch.empty(1000, device="neuron").isnan().all().item()   # used again: poisoned again
        """,
        **DEBUG,
    )


def test_forgotten_initialization_shows(run_python):
    run_python(
        """
        accumulator = torch.empty(4, device="neuron")   # the user forgot zero_()
        accumulator += 1
        assert accumulator.isnan().all().item()
        """,
        **DEBUG,
    )


def test_stray_host_read_faults(run_python):
    done = run_python(
        """
        import ctypes
        x = torch.ones(4, device="neuron")
        x.add_(1)
        assert x.tolist() == [2, 2, 2, 2]
        print("before", flush=True)
        ctypes.c_float.from_address(x.data_ptr()).value
        print("after", flush=True)
        """,
        check=False,
        **DEBUG,
    )
    assert "before" in done.stdout and "after" not in done.stdout
    assert done.returncode == -signal.SIGSEGV


def test_stray_host_write_faults(run_python):
    done = run_python(
        """
        import ctypes
        x = torch.ones(1 << 20, device="neuron")
        ctypes.memset(x.data_ptr(), 0, 16)
        """,
        check=False,
        **DEBUG,
    )
    assert done.returncode == -signal.SIGSEGV


def test_without_the_mode_a_host_read_is_not_stopped(run_python):
    done = run_python(
        """
        import ctypes
        print(ctypes.c_float.from_address(torch.ones(4, device="neuron").data_ptr()).value)
        """
    )
    assert done.stdout.strip() == "1.0"


def test_programs_run_unchanged(run_python):
    code = """
    torch.manual_seed(0)
    def run(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)
        )
        x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 5, (8,))
        model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss.item()
    with trnsim.fallback_policy("allow"):
        ours, theirs = run("neuron"), run("cpu")
    assert abs(ours - theirs) < 1e-5, (ours, theirs)
    """
    run_python(code, **DEBUG)


def test_everything_that_reads_legally_is_let_in(run_python):
    run_python(
        """
        import copy, io, pickle
        x = torch.arange(6.0, device="neuron").reshape(2, 3)
        str(x), x.tolist(), x[0, 1].item(), x.cpu(), x.t().cpu(), x.numpy(force=True), bool(x.sum() > 0)
        copy.deepcopy(x), pickle.dumps(x), x.untyped_storage().cpu(), x.untyped_storage().tolist()
        torch.save(x, io.BytesIO())
        x.to("neuron:1"), x.expand(4, 2, 3).cpu()
        x.untyped_storage().resize_(100)
        x.resize_(5, 5)
        torch.arange(4.0, device="neuron").resize_(2, 30)   # grows: the old bytes are copied
        y = torch.ones(2, device="neuron", requires_grad=True)
        (y * 2).sum().backward()
        assert y.grad.tolist() == [2, 2]
        """,
        **DEBUG,
    )


def test_threads_may_compute_at_once(run_python):
    run_python(
        """
        import threading
        bad = []
        def work(i):
            for _ in range(50):
                if (torch.full((100,), float(i), device="neuron") + 1).sum().item() != 100 * (i + 1): bad.append(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]; [t.join(60) for t in threads]
        assert not bad
        """,
        **DEBUG,
    )
