"""Streams, events and the simulated clock. The host runs ahead; waits and events order; times repeat exactly."""

from __future__ import annotations

import pytest
import torch

import trnsim
from trnsim import _C


@pytest.fixture(autouse=True)
def _idle() -> None:
    for index in range(torch.neuron.device_count()):
        torch.neuron.synchronize(index)


def slow(index: int = 0) -> torch.Tensor:
    """Some milliseconds of simulated device time, cheap on the CPU: a gather."""
    device = torch.device("neuron", index)
    return torch.ones(1 << 18, device=device).gather(0, torch.zeros(1 << 18, dtype=torch.int64, device=device))


def tail(stream: torch.Stream) -> int:
    return _C.stream_tail(stream.device_index, stream.stream_id)


def elapsed(work) -> float:
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


# Run-ahead and stalls


def test_host_runs_ahead_of_the_device():
    before = trnsim.clock()
    slow()
    after = trnsim.clock()
    assert after.host_ns - before.host_ns < 200_000
    assert after.device_ns - after.host_ns > 500_000


def test_synchronize_catches_up():
    slow()
    torch.neuron.synchronize()
    now = trnsim.clock()
    assert now.host_ns >= now.device_ns


def test_reading_a_value_waits_for_the_work_before_it():
    x = slow()
    assert trnsim.clock().device_ns > trnsim.clock().host_ns
    x[0].item()
    assert trnsim.clock().host_ns >= trnsim.clock().device_ns


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: bool(x[0] > 0),
        lambda x: float(x[0]),
        lambda x: x.nonzero().cpu(),
        lambda x: x.numpy(force=True),
        lambda x: torch.equal(x, x),
        lambda x: x[x > 0].cpu(),
    ],
    ids=["cpu", "tolist", "bool", "float", "nonzero", "numpy", "equal", "mask"],
)
def test_whatever_shows_the_host_a_value_stalls_it(read):
    x = slow()
    read(x)
    assert trnsim.clock().host_ns >= trnsim.clock().device_ns - 200_000


def test_size_dependent_results_stall():
    """nonzero's shape is a value: the host cannot go on without it."""
    x = slow()
    busy_until = trnsim.clock().device_ns
    x.nonzero()
    assert trnsim.clock().host_ns >= busy_until


def test_fallback_stalls_and_costs_host_time():
    x = slow()
    busy_until = trnsim.clock().device_ns
    with trnsim.fallback_policy("allow"):
        x.sort()
    assert trnsim.clock().host_ns >= busy_until + 400_000


def test_pinned_non_blocking_copies_do_not_stall():
    slow()
    host = torch.ones(1000, pin_memory=True)
    before = trnsim.clock().host_ns
    host.to("neuron", non_blocking=True)
    assert trnsim.clock().host_ns - before < 100_000


def test_pageable_copies_stall_even_if_non_blocking():
    slow()
    torch.ones(1000).to("neuron", non_blocking=True)
    assert trnsim.clock().host_ns >= trnsim.clock().device_ns


def test_views_take_no_device_time():
    x = torch.ones(64, 64, device="neuron")
    torch.neuron.synchronize()
    before = trnsim.clock()
    x.view(-1).reshape(32, 128).t()[3:5].unsqueeze(0).expand(2, -1, -1)
    assert trnsim.clock().device_ns == before.device_ns


def test_printing_costs_nothing():
    x = torch.ones(4, device="neuron")
    before = trnsim.clock()
    repr(x)
    assert trnsim.clock() == before


def test_only_predicted_time_passes():
    import time

    before = trnsim.clock()
    time.sleep(0.01)
    assert trnsim.clock() == before


# Streams


def test_streams_are_distinct_and_compare():
    a, b = torch.neuron.Stream(), torch.neuron.Stream()
    assert a != b and a.stream_id != b.stream_id and a != torch.neuron.default_stream()
    assert a.device == torch.device("neuron:0") and isinstance(a, torch.Stream)
    assert hash(a) != hash(b)


def test_context_manager_sets_and_restores():
    default = torch.neuron.current_stream()
    side = torch.neuron.Stream()
    with torch.neuron.stream(side):
        assert torch.neuron.current_stream() == side == torch.accelerator.current_stream()
        with torch.neuron.stream(None):
            assert torch.neuron.current_stream() == side
    assert torch.neuron.current_stream() == default == torch.neuron.default_stream()


def test_context_manager_restores_after_an_error():
    with pytest.raises(ZeroDivisionError), torch.neuron.stream(torch.neuron.Stream()):
        _ = 1 / 0
    assert torch.neuron.current_stream() == torch.neuron.default_stream()


def test_torch_stream_itself_is_a_context_manager():
    side = torch.Stream("neuron")
    with side:
        assert torch.accelerator.current_stream() == side
    assert torch.accelerator.current_stream() != side


def test_work_goes_to_the_current_stream():
    side = torch.neuron.Stream()
    default_tail = tail(torch.neuron.default_stream())
    with torch.neuron.stream(side):
        slow()
    assert tail(side) > trnsim.clock().host_ns
    assert tail(torch.neuron.default_stream()) == default_tail


def test_two_streams_overlap():
    def on_one():
        slow()
        slow()

    def on_two():
        other = torch.neuron.Stream()
        slow()
        with torch.neuron.stream(other):
            slow()
        torch.neuron.current_stream().wait_stream(other)

    one, two = elapsed(on_one), elapsed(on_two)
    assert one > 1.5 * two


def test_wait_stream_orders():
    a, b = torch.neuron.Stream(), torch.neuron.Stream()
    with torch.neuron.stream(a):
        slow()
    b.wait_stream(a)
    assert tail(b) >= tail(a)
    with torch.neuron.stream(b):
        slow()
    assert tail(b) > tail(a)


def test_wait_event_orders_only_up_to_the_event():
    a, b = torch.neuron.Stream(), torch.neuron.Stream()
    event = torch.neuron.Event()
    with torch.neuron.stream(a):
        slow()
        event.record()
        marked = tail(a)
        slow()
    b.wait_event(event)
    assert marked <= tail(b) < tail(a)


def test_query_and_synchronize_of_a_stream():
    side = torch.neuron.Stream()
    assert side.query()
    with torch.neuron.stream(side):
        slow()
    assert not side.query()
    side.synchronize()
    assert side.query()


def test_synchronizing_one_stream_leaves_the_other_running():
    a, b = torch.neuron.Stream(), torch.neuron.Stream()
    with torch.neuron.stream(b):
        for _ in range(3):
            slow()
    with torch.neuron.stream(a):
        torch.ones(4, device="neuron") + 1
    a.synchronize()
    assert a.query() and not b.query()


def test_cross_device_waits():
    zero, one = torch.neuron.current_stream(0), torch.neuron.current_stream(1)
    event = torch.neuron.Event(device=0)
    slow(0)
    event.record(zero)
    assert tail(one) < tail(zero)
    one.wait_event(event)
    assert tail(one) >= tail(zero)


def test_stream_of_another_device_makes_it_current():
    side = torch.neuron.Stream(device=1)
    with torch.neuron.stream(side):
        assert torch.neuron.current_device() == 1
        assert torch.ones(2, device="neuron").device == torch.device("neuron:1")
    assert torch.neuron.current_device() == 0


def test_devices_run_at_the_same_time():
    slow(0)
    assert not torch.neuron.current_stream(0).query()
    assert torch.neuron.current_stream(1).query()


def test_copy_between_devices_is_ordered_after_the_source():
    x = slow(0)
    y = x.to("neuron:1")
    assert y.device.index == 1 and torch.equal(y.cpu(), x.cpu())


# Events


def test_elapsed_time_is_deterministic_and_additive():
    times = {round(elapsed(slow), 6) for _ in range(3)}
    assert len(times) == 1
    assert elapsed(lambda: (slow(), slow())) == pytest.approx(2 * times.pop(), rel=0.05)


def test_elapsed_time_sees_the_work_not_the_launch():
    def small():
        torch.ones(4, device="neuron").add_(1)

    assert elapsed(slow) > 3 * elapsed(small) > 0


def test_elapsed_time_before_synchronize_is_known_too():
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    start.record()
    slow()
    end.record()
    assert not end.query()
    assert start.elapsed_time(end) > 0.1


def test_elapsed_time_needs_timing_and_a_record():
    with pytest.raises(RuntimeError, match="recorded"):
        torch.neuron.Event(enable_timing=True).elapsed_time(torch.neuron.Event(enable_timing=True))
    start, end = torch.neuron.Event(), torch.neuron.Event(enable_timing=True)
    start.record()
    end.record()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        start.elapsed_time(end)


def test_event_query_and_synchronize():
    event = torch.neuron.Event()
    assert event.query()
    slow()
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()


def test_event_recorded_twice_means_the_second():
    event = torch.neuron.Event()
    event.record()
    slow()
    event.record()
    assert not event.query()


def test_stream_record_event_returns_it():
    side = torch.neuron.Stream()
    with torch.neuron.stream(side):
        slow()
    event = side.record_event()
    assert not event.query()
    event.synchronize()
    assert side.query()


def test_torch_event_works_as_well_as_ours():
    start, end = torch.Event("neuron", enable_timing=True), torch.Event("neuron", enable_timing=True)
    start.record()
    slow()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == pytest.approx(elapsed(slow), rel=0.05)


def test_many_streams_do_not_run_out():
    streams = [torch.neuron.Stream() for _ in range(500)]
    with torch.neuron.stream(streams[-1]):
        assert (torch.ones(2, device="neuron") + 1).tolist() == [2, 2]


# Options


def test_launch_blocking_waits_for_each_op(run_python):
    run_python(
        """
        x = torch.ones(1 << 18, device="neuron")
        i = torch.zeros(1 << 18, dtype=torch.int64, device="neuron")
        before = trnsim.clock()
        x.gather(0, i)
        now = trnsim.clock()
        assert now.host_ns - before.host_ns > 500_000, (before, now)
        assert now.host_ns >= now.device_ns
        """,
        NEURON_LAUNCH_BLOCKING="1",
    )


def test_clock_off_means_no_time(run_python):
    run_python(
        """
        before = trnsim.clock()
        y = torch.ones(100, device="neuron").add_(1)
        assert y.sum().item() == 200
        assert trnsim.clock() == before
        """,
        TRNSIM_CLOCK="0",
    )


def test_two_processes_predict_the_same_time(run_python):
    code = """
    with trnsim.fallback_policy("allow"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).to("neuron")
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(32, 64).to("neuron")
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        torch.neuron.synchronize()
        print(trnsim.clock())
    """
    assert run_python(code).stdout == run_python(code).stdout != ""
