"""Allocator: c10::DeviceAllocator behind torch.accelerator.memory_* and torch.neuron.memory_*. Sizes in bytes."""

from __future__ import annotations

import gc
import random
import resource

import pytest
import torch

from trnsim import _C

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _fresh_device() -> None:
    gc.collect()
    torch.neuron.empty_cache()
    torch.neuron.reset_peak_memory_stats()


def allocated() -> int:
    return torch.neuron.memory_allocated()


def test_allocated_follows_tensors():
    before = allocated()
    x = torch.empty(MIB, dtype=torch.uint8, device="neuron")
    assert allocated() == before + MIB
    del x
    assert allocated() == before


@pytest.mark.parametrize(("asked", "got"), [(1, 256), (256, 256), (257, 512), (1000, 1024), (4096, 4096)])
def test_small_requests_round_to_a_class_of_at_least_256_bytes(asked: int, got: int):
    before = allocated()
    x = torch.empty(asked, dtype=torch.uint8, device="neuron")
    assert allocated() - before == got
    assert x.untyped_storage().nbytes() == asked


@pytest.mark.parametrize("asked", [5000, 70_000, 999_999, 3 * MIB + 1, 15 * MIB + 7, 16 * MIB + 1, 33 * MIB])
def test_rounding_wastes_at_most_an_eighth(asked: int):
    before = allocated()
    x = torch.empty(asked, dtype=torch.uint8, device="neuron")
    taken = allocated() - before
    assert asked <= taken <= asked * 1.125 + 256
    del x


def test_empty_tensor_takes_nothing():
    before = allocated()
    x = torch.empty(0, 5, device="neuron")
    assert allocated() == before and x.numel() == 0


def test_reserved_at_least_allocated_at_least_requested():
    tensors = [torch.empty(n, device="neuron") for n in (3, 1000, 300_000, 5_000_000)]
    stats = torch.neuron.memory_stats()
    current = {kind: stats[f"{kind}_bytes.all.current"] for kind in ("reserved", "allocated", "requested", "active")}
    assert current["reserved"] >= current["allocated"] >= current["requested"] > 0
    assert current["active"] >= current["allocated"]
    del tensors


def test_small_and_large_pools_are_counted_apart():
    before = torch.neuron.memory_stats()
    small = torch.empty(1000, dtype=torch.uint8, device="neuron")
    large = torch.empty(2 * MIB, dtype=torch.uint8, device="neuron")
    after = torch.neuron.memory_stats()

    def grown(pool: str) -> int:
        key = f"allocated_bytes.{pool}.current"
        return after[key] - before[key]

    assert grown("small_pool") == 1024 and grown("large_pool") == 2 * MIB
    assert grown("all") == grown("small_pool") + grown("large_pool")
    del small, large


def test_freed_memory_is_used_again_without_growing():
    x = torch.empty(8 * MIB, dtype=torch.uint8, device="neuron")
    address, reserved = x.data_ptr(), torch.neuron.memory_reserved()
    del x
    y = torch.empty(8 * MIB, dtype=torch.uint8, device="neuron")
    assert y.data_ptr() == address and torch.neuron.memory_reserved() == reserved


def test_empty_cache_gives_segments_back():
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="neuron")
    held = torch.neuron.memory_reserved()
    del x
    assert torch.neuron.memory_reserved() == held
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved() <= held - 64 * MIB


def test_neighbours_merge_when_freed():
    parts = [torch.empty(2 * MIB, dtype=torch.uint8, device="neuron") for _ in range(8)]
    reserved = torch.neuron.memory_reserved()
    del parts
    whole = torch.empty(15 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_reserved() == reserved
    del whole


def test_peak_and_its_reset():
    base = allocated()
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="neuron")
    del x
    assert torch.neuron.max_memory_allocated() >= base + 10 * MIB
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == allocated() == base


def test_accumulated_stats_and_their_reset():
    torch.neuron.reset_accumulated_memory_stats()
    for _ in range(3):
        torch.empty(1000, device="neuron")
    stats = torch.neuron.memory_stats()
    assert stats["allocation.all.allocated"] == 3 and stats["allocation.all.freed"] == 3
    torch.neuron.reset_accumulated_memory_stats()
    assert torch.neuron.memory_stats()["allocation.all.allocated"] == 0


def test_accelerator_api_agrees_with_ours():
    x = torch.empty(5 * MIB, dtype=torch.uint8, device="neuron")
    accelerator = torch.accelerator
    assert accelerator.memory_allocated() == torch.neuron.memory_allocated()
    assert accelerator.max_memory_allocated() == torch.neuron.max_memory_allocated()
    assert accelerator.memory_reserved() == torch.neuron.memory_reserved()
    assert accelerator.memory_stats()["allocated_bytes.all.current"] == allocated()
    assert accelerator.get_memory_info() == torch.neuron.mem_get_info()
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    accelerator.empty_cache()
    del x


def test_memory_is_counted_on_the_tensors_own_device():
    zero, one = torch.neuron.memory_allocated(0), torch.neuron.memory_allocated(1)
    x = torch.empty(MIB, dtype=torch.uint8, device="neuron:1")
    y = x + 1
    assert torch.neuron.memory_allocated(0) == zero
    assert torch.neuron.memory_allocated(1) == one + 2 * MIB
    del x, y


def test_capacity_of_a_trn2_core_pair_is_24_gib():
    free, total = torch.neuron.mem_get_info()
    assert total == 24 << 30 == torch.neuron.get_device_properties().total_memory
    x = torch.empty(512 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.mem_get_info()[0] == free - 512 * MIB
    del x


@pytest.mark.skipif(_C.memory_debug(), reason="the debug mode writes NaN into fresh memory")
def test_host_pages_are_committed_only_when_touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB
    x = torch.empty(8 << 30, dtype=torch.uint8, device="neuron")
    x[:10] = 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    del x
    torch.neuron.empty_cache()


def test_no_leak_over_a_training_loop():
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 16, device="neuron")
    held = []
    for _ in range(4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        held.append(allocated())
    assert held[1] == held[2] == held[3]


def test_data_is_aligned_for_any_dtype():
    for n in (1, 3, 77, 1000, 123_457):
        assert torch.empty(n, dtype=torch.uint8, device="neuron").data_ptr() % 64 == 0


def test_summary_names_the_device_and_its_numbers():
    text = torch.neuron.memory_summary()
    assert "neuron:0" in text and "24.00 GiB" in text and "allocated" in text and "reserved" in text


def test_bad_device_index_is_named():
    with pytest.raises(RuntimeError, match=r"neuron:99 does not exist.*4 neuron device"):
        torch.neuron.memory_allocated(99)


def test_pluggable_op_outputs_are_device_memory():
    """Outputs that ATen's CPU kernels allocate inside an op count as device memory."""
    before = allocated()
    values, indices = torch.randn(1000, device="neuron").sort()
    assert allocated() - before == 4096 + 8192
    del values, indices
    assert allocated() == before


def check_books(device: int) -> None:
    """Segments, blocks and statistics agree."""
    segments, stats = _C.memory_segments(device), torch.neuron.memory_stats(device)
    for total, key in (
        (sum(segment["total_size"] for segment in segments), "reserved_bytes"),
        (sum(segment["allocated_size"] for segment in segments), "allocated_bytes"),
        (sum(segment["active_size"] for segment in segments), "active_bytes"),
        (len(segments), "segment"),
    ):
        assert total == stats[f"{key}.all.current"], key
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_random_use_keeps_contents_and_books():
    """Allocations, frees, resizes, record_stream and empty_cache in random order; no block is handed out twice."""
    choose = random.Random(0)
    live: list[tuple[torch.Tensor, int]] = []
    streams = [torch.neuron.Stream() for _ in range(3)]

    def intact(x: torch.Tensor, value: int) -> bool:
        return bool((x[:64] == value).all()) and bool((x[-64:] == value).all())

    for step in range(2000):
        if choose.random() < 0.55 or not live:
            x = torch.empty(int(2 ** choose.uniform(0, 24)), dtype=torch.uint8, device=f"neuron:{step % 2}")
            x[:64] = x[-64:] = step % 256
            live.append((x, step % 256))
        else:
            x, value = live.pop(choose.randrange(len(live)))
            assert intact(x, value)
            if step % 5 == 0 and x.device.index == 0:
                x.record_stream(choose.choice(streams))
            if step % 7 == 0:
                x.untyped_storage().resize_(choose.randrange(1000))
        if step % 100 == 0:
            torch.neuron.empty_cache()
        if step % 250 == 0:
            check_books(0)
            check_books(1)
    assert all(intact(x, value) for x, value in live)
