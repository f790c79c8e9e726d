"""Memory, profiler, loader and the rest: what users of other backends reported (repository#number in each name)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import trnsim
from trnsim import eager, ledger

DEV = "neuron"
pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def test_pt_166395_152932_mojo_472_spyre_4542_vllm_ascend_14188_a_kv_cache_can_be_sized():
    """As vLLM does: free memory after a profiling run, minus the peak of the run."""
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    free_before, total = torch.accelerator.get_memory_info()
    weights = torch.empty(1 << 28, dtype=torch.uint8, device=DEV)
    temporary = torch.empty(1 << 27, dtype=torch.uint8, device=DEV)
    del temporary
    stats = torch.accelerator.memory_stats()
    peak = stats["allocated_bytes.all.peak"]
    assert peak >= (1 << 28) + (1 << 27)
    torch.accelerator.empty_cache()
    free, _ = torch.accelerator.get_memory_info()
    assert free == free_before - (1 << 28)
    cache = torch.empty(int(total * 0.9) - peak, dtype=torch.uint8, device=DEV)
    assert torch.accelerator.max_memory_allocated() <= total * 0.91
    del weights, cache
    torch.accelerator.empty_cache()


def test_pt_166395_every_statistic_that_frameworks_read_is_there():
    stats = torch.neuron.memory_stats()
    for kind in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "inactive_split_bytes"):
        for field in ("current", "peak", "allocated", "freed"):
            assert isinstance(stats[f"{kind}.all.{field}"], int)
    assert {"num_ooms", "num_alloc_retries"} <= stats.keys()
    torch.neuron.mem_get_info(), torch.neuron.memory_summary(abbreviated=True)


def test_pt_186260_host_memory_statistics():
    """Pinned bytes, with torch.cuda.host_memory_stats' names."""
    before = torch.neuron.host_memory_stats()
    pinned = torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)
    held = torch.neuron.host_memory_stats()
    assert held["allocated_bytes.current"] - before["allocated_bytes.current"] == 1 << 20
    assert held["allocated_bytes.peak"] >= held["allocated_bytes.current"]
    del pinned
    assert torch.neuron.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]


def test_pt_125016_82583_196801_pin_memory_takes_the_accelerator_by_itself():
    assert torch.ones(2).pin_memory().is_pinned()
    assert torch.empty(2, pin_memory=True).is_pinned()
    loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2, pin_memory=True)
    assert all(batch.is_pinned() for (batch,) in loader)
    assert nn.utils.rnn.pack_sequence([torch.ones(2, 1)]).pin_memory().data.is_pinned()


@pytest.mark.filterwarnings("ignore:.*pin_memory_device.*")
@pytest.mark.filterwarnings("ignore:.*argument 'device' of Tensor.*")
def test_pt_125016_82583_named_pin_device():
    loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2, pin_memory=True, pin_memory_device=DEV)
    assert all(batch.is_pinned() for (batch,) in loader)
    assert torch.ones(2).pin_memory(DEV).is_pinned(DEV)


def test_diffusers_13289_random_tensors_made_on_the_cpu_then_moved_are_the_cpus():
    expected = torch.randn(4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.randn(4, generator=torch.Generator().manual_seed(0)).to(DEV).cpu(), expected)
    with trnsim.rng("cpu"):
        assert torch.equal(torch.randn(4, device=DEV, generator=torch.Generator(DEV).manual_seed(0)).cpu(), expected)


def test_diffusers_13289_cold_and_warm_are_told_apart():
    """Compilation is counted apart: a first call predicts the same time as a second."""
    x = torch.ones(7, 13, 5, device=DEV)

    def elapsed() -> float:
        start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
        torch.neuron.synchronize()
        start.record()
        x.atan()
        end.record()
        return start.elapsed_time(end)

    before = eager.compile_stats()
    cold = elapsed()
    after = eager.compile_stats()
    assert (after.compiles + after.hits) - (before.compiles + before.hits) == 1
    assert elapsed() == cold and eager.compile_stats() == after


def test_diffusers_13289_cache_directory_by_environment(run_python, tmp_path):
    run_python("torch.ones(3, device='neuron').tanh()", TORCH_NEURONX_NEFF_CACHE_DIR=str(tmp_path / "here"))
    assert list((tmp_path / "here").rglob("*.neff"))
    run_python(
        "torch.ones(3, device='neuron').tanh()",
        TORCH_NEURONX_NEFF_CACHE_DIR=str(tmp_path / "off"),
        TORCH_NEURONX_NEFF_DISABLE_CACHE="1",
    )
    assert not (tmp_path / "off").exists() or not list((tmp_path / "off").rglob("*.neff"))


def test_pt_140909_128199_131041_flops_are_counted():
    from torch.utils.flop_counter import FlopCounterMode

    a = torch.ones(8, 16, device=DEV)
    with FlopCounterMode(display=False) as counter, ledger.record() as session:
        a @ a.t()
        nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 8, 16, device=DEV)] * 3)
    assert counter.get_total_flops() >= 2 * 8 * 16 * 8
    assert {stat.op: stat.flops for stat in session.ops()}["aten::mm"] == 2 * 8 * 16 * 8


def test_pt_140909_profiler_sees_the_ops():
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(4, 4, device=DEV)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True) as prof:
        (x @ x).sum().item()
    names = {event.key for event in prof.key_averages()}
    assert {"aten::mm", "aten::sum"} <= names
