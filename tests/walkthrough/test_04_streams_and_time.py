"""4. Streams and simulated time: predicted Trainium milliseconds, the same on every run and every machine."""

import torch

import trnsim


def work() -> None:
    x = torch.ones(256, 256, device="neuron")
    for _ in range(10):
        x = (x @ x).sigmoid()


def milliseconds(function) -> float:
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    torch.neuron.synchronize()
    start.record()
    function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def test_elapsed_time_repeats_exactly():
    assert milliseconds(work) == milliseconds(work) > 0.5


def test_the_host_runs_ahead_until_it_needs_a_value():
    torch.neuron.synchronize()
    work()
    now = trnsim.clock()
    assert now.device_ns > now.host_ns  # issued, not done
    torch.ones(1, device="neuron").item()  # reading a value waits for all that came before
    now = trnsim.clock()
    assert now.host_ns >= now.device_ns


def test_streams_overlap_and_wait_for_each_other():
    def together() -> None:
        side = torch.neuron.Stream()
        with torch.neuron.stream(side):
            work()
        work()
        torch.neuron.current_stream().wait_stream(side)

    assert milliseconds(together) < 1.5 * milliseconds(work)
    assert milliseconds(lambda: (work(), work())) > 1.8 * milliseconds(work)


def test_views_are_free():
    x = torch.ones(64, 64, device="neuron")
    assert milliseconds(lambda: x.t()[3:].unsqueeze(0)) < 0.05
