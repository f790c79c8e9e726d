"""The ledger: what happened, where, at what cost; TorchNeuron's tracking calls on top."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import torch_neuronx
from trnsim import _C, ledger

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def count(session: ledger.Session, op: str) -> int:
    return sum(stat.count for stat in session.ops() if stat.op == op)


def test_ops_are_counted_by_overload_name():
    x = torch.ones(3, device="neuron")
    with ledger.record() as session:
        x + x
        x + 1
        x.mul_(2)
    assert (
        count(session, "aten::add.Tensor") == 2
        and count(session, "aten::mul_.Tensor") + count(session, "aten::mul_.Scalar") == 1
    )


def test_op_statistics_have_time_bytes_and_flops():
    a = torch.ones(64, 64, device="neuron")
    with ledger.record() as session:
        a @ a
    (stat,) = [stat for stat in session.ops() if stat.op == "aten::mm"]
    assert stat.native == 1 and stat.fallback == 0 and stat.engine == "tensor"
    assert stat.flops == 2 * 64**3 and stat.bytes == 3 * 64 * 64 * 4
    assert stat.device_ns > 0 and stat.host_ns > 0


def test_cached_and_new_keys_count_alike():
    with ledger.record() as session:
        for n in (5, 6, 5, 6):
            torch.ones(n, device="neuron").cosh()
    assert count(session, "aten::cosh") == 4


def test_fallbacks_have_reason_site_bytes_and_cost():
    x = torch.randn(1000).to("neuron")
    with ledger.record() as session:
        line = sys._getframe().f_lineno + 1
        x.sort(), x.sort()
    (stat,) = session.fallbacks()
    assert stat.op.startswith("aten::sort") and stat.reason == "missing_op" and stat.count == 2
    assert stat.site.endswith(f"test_ledger.py:{line}") and stat.bytes >= 2 * 4000 and stat.cost_ns > 800_000


def test_reasons_are_told_apart():
    with ledger.record() as session:
        z = torch.ones(3, device="neuron").sort()
        torch.linalg.inv(torch.eye(3, device="neuron"))
        torch.fft.fft(torch.ones(4, device="neuron"))
    assert {stat.reason for stat in session.fallbacks()} <= {
        "missing_op",
        "dtype",
        "layout",
        "view",
        "complex",
        "custom_op",
        "debug_repr",
        "limits",
    }
    assert len(session.fallbacks()) >= 3 and z.values.numel() == 3


def test_custom_op_has_its_own_reason():
    with torch.library._scoped_library("trnsimledger", "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x + 1, "CPU")
        x = torch.ones(2, device="neuron")
        with ledger.record() as session:
            torch.ops.trnsimledger.f(x)
    assert [(stat.op, stat.reason) for stat in session.fallbacks()] == [("trnsimledger::f", "custom_op")]


def test_syncs():
    x = torch.ones(3, device="neuron")
    with ledger.record() as session:
        x.sum().item()
        x.cpu()
        torch.neuron.synchronize()
        torch.neuron.current_stream().synchronize()
    details = [event.detail for event in session.syncs()]
    assert details == ["item", "copy to host", "synchronize", "stream.synchronize"]
    assert all("test_ledger.py" in event.site for event in session.syncs())
    assert all(event.duration_ns >= 0 for event in session.syncs())


def test_hidden_syncs_are_found_at_their_line():
    x = torch.ones(3, device="neuron")
    with ledger.record() as session:
        line = sys._getframe().f_lineno + 1
        if x.sum() > 2:
            pass
    (event,) = session.syncs()
    assert event.site.endswith(f"test_ledger.py:{line}")


def test_transfers():
    with ledger.record() as session:
        x = torch.ones(1000).to("neuron")
        x.cpu()
        x.to("neuron:1")
    assert [event.detail for event in session.transfers()] == ["h2d", "d2h", "d2d"]
    assert [event.bytes for event in session.transfers()] == [4000] * 3


def test_casts_of_64_bits():
    x = torch.ones(10, dtype=torch.int64, device="neuron")
    with ledger.record() as session:
        x.to(torch.int32)
        x.float().double()
        torch.ones(2, device="neuron").half()
    assert [event.detail for event in session.casts()] == [
        "int64 to int32",
        "int64 to float32",
        "float32 to float64",
    ]


def test_compiles_by_key_scalars_do_not_count():
    shape = (3, 11, 17)  # used by no other test
    x = torch.ones(shape, device="neuron")
    with ledger.record() as session:
        x + 1
        x + 3
        x * 2
        x.sum(0), x.sum(1)
        x.half() + 1
    ops = [event.op for event in session.compiles()]
    assert ops.count("aten::add.Tensor") == 2  # float and half
    assert ops.count("aten::sum.dim_IntList") == 2  # dim is static
    assert {event.kind for event in session.compiles()} <= {"compile", "cache_hit"}


def test_second_process_reports_cache_hits(run_python, tmp_path):
    code = """
    from trnsim import ledger
    with ledger.record() as session:
        torch.ones(3, 5, device="neuron").tanh()
    print([e.kind for e in session.compiles() if e.op == "aten::tanh"])
    """
    cache = str(tmp_path / "cache")
    assert run_python(code, TORCH_NEURONX_NEFF_CACHE_DIR=cache).stdout.strip() == "['compile']"
    assert run_python(code, TORCH_NEURONX_NEFF_CACHE_DIR=cache).stdout.strip() == "['cache_hit']"
    files = [p.relative_to(cache).parts for p in (tmp_path / "cache").rglob("*.neff")]
    assert files and all(len(parts) == 3 and len(parts[0]) == len(parts[1]) == 2 for parts in files)


def test_sessions_nest_and_freeze():
    x = torch.ones(3, device="neuron")
    with ledger.record() as outer:
        x.tan()
        with ledger.record() as inner:
            x.tan()
        x.tan()
    x.tan()
    assert count(outer, "aten::tan") == 3 and count(inner, "aten::tan") == 1


def test_session_can_be_read_while_it_records():
    x = torch.ones(3, device="neuron")
    with ledger.record() as session:
        x.tan()
        assert count(session, "aten::tan") == 1
        assert session.elapsed_ns() > 0


def test_memory_in_a_session():
    with ledger.record() as session:
        x = torch.ones(10 << 20, device="neuron")
        x + 1
    (stat,) = [stat for stat in session.memory() if stat.device == 0]
    assert stat.capacity == 24 << 30 and stat.peak_allocated >= 80 << 20
    assert any("test_ledger.py" in site for site, _, _ in stat.holders)


def test_backward_ops_have_a_site_too():
    x = torch.ones(3, device="neuron", requires_grad=True)
    with ledger.record() as session:
        x.cumprod(0).sum().backward()
    assert all(stat.site for stat in session.fallbacks())


def test_module_path_of_a_fallback():
    """`trnsim check` and users see which layer it was."""

    class Sorts(torch.nn.Module):
        def forward(self, x):
            return x.sort().values

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), Sorts()).to("neuron")
    with ledger.record() as session:
        model(torch.ones(2, 3, device="neuron"))
    (stat,) = [stat for stat in session.fallbacks() if "sort" in stat.op]
    assert isinstance(stat.module, str)


def test_assert_no_fallback():
    x = torch.ones(3, device="neuron")
    with ledger.assert_no_fallback():
        (x + 1).relu()
    with pytest.raises(AssertionError, match=r"aten::sort.*test_ledger\.py"), ledger.assert_no_fallback():
        x.sort()
    with ledger.assert_no_fallback(allow=("aten::sort",)):
        x.sort()


def test_errors_inside_a_recording_leave_it_closed():
    with pytest.raises(ZeroDivisionError), ledger.record():
        _ = 1 / 0
    assert not _C.recording()
    with ledger.record() as session:
        torch.ones(2, device="neuron")
    assert session.events is not None


def test_executed_and_fallback_ops_of_torch_neuronx():
    torch_neuronx.clear_op_tracking()
    assert torch_neuronx.get_executed_ops() == [] == torch_neuronx.get_fallback_ops()
    x = torch.ones(3, device="neuron")
    x * x
    x.sort()
    executed, fallen = torch_neuronx.get_executed_ops(), torch_neuronx.get_fallback_ops()
    assert "aten::mul.Tensor" in executed and "aten::mul.Tensor" not in fallen
    assert any(op.startswith("aten::sort") for op in fallen)
    assert not any(op.startswith("aten::sort") for op in executed)
    torch_neuronx.clear_op_tracking()
    assert torch_neuronx.get_fallback_ops() == []
    x * x
    assert "aten::mul.Tensor" in torch_neuronx.get_executed_ops()


def test_failed_ops_do_not_count():
    x = torch.ones(3, device="neuron")
    with ledger.record() as session:
        with pytest.raises(IndexError):
            x.sum(5)
    assert count(session, "aten::sum.dim_IntList") == 0


def test_recording_by_environment(run_python):
    done = run_python(
        """
        from trnsim import _C
        print(_C.recording())
        torch.ones(2, device="neuron").sum().item()
        print(_C.event_count() > 0)
        """,
        TRNSIM_LEDGER="1",
    )
    assert done.stdout.split() == ["True", "True"]


def test_sessions_of_several_threads_end_the_recording():
    assert not _C.recording()

    def work(_: int) -> bool:
        for _ in range(20):
            with ledger.record() as session:
                torch.ones(3, device="neuron").sum().item()
            if not session.syncs():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert not _C.recording() and _C.event_count() == 0
