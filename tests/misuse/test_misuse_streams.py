"""Streams, events and generators: foreign, unrecorded, wrong sizes, very many."""

from __future__ import annotations

import pytest
import torch
from misuse_case import Mistake, check, ones, parametrize


def _elapsed(start_timing: bool, end_timing: bool, record: tuple[bool, bool]) -> None:
    start = torch.neuron.Event(enable_timing=start_timing)
    end = torch.neuron.Event(enable_timing=end_timing)
    for event, wanted in zip((start, end), record, strict=True):
        if wanted:
            event.record()
    start.elapsed_time(end)


def _raw_stream(stream_id: int, index: int = 0) -> torch.Stream:
    kind = torch.neuron.current_stream().device_type
    return torch.Stream(stream_id=stream_id, device_index=index, device_type=kind)


STREAMS = [
    Mistake(
        name="elapsed time of events not recorded", run=lambda d: _elapsed(True, True, (False, False)),
        error=RuntimeError, says=("recorded", "record()"), as_cpu=False,
    ),
    Mistake(
        name="elapsed time, end not recorded", run=lambda d: _elapsed(True, True, (True, False)), error=RuntimeError,
        says=("recorded",), as_cpu=False,
    ),
    Mistake(
        name="elapsed time without timing", run=lambda d: _elapsed(False, False, (True, True)), error=(RuntimeError, ValueError),
        says=("enable_timing=True",), as_cpu=False,
    ),
    Mistake(
        name="elapsed time, one without timing", run=lambda d: _elapsed(True, False, (True, True)),
        error=(RuntimeError, ValueError), says=("enable_timing=True",), as_cpu=False,
    ),
    Mistake(
        name="elapsed time to no event", run=lambda d: torch.neuron.Event(enable_timing=True).elapsed_time(3),
        error=TypeError, as_cpu=False,
    ),
    Mistake(
        name="stream on the CPU", run=lambda d: torch.neuron.Stream(device=torch.device("cpu")), error=ValueError,
        says=("neuron", "cpu"), as_cpu=False,
    ),
    Mistake(
        name="stream of no device", run=lambda d: torch.neuron.Stream(device=[1]), error=TypeError, says=("list",),
        as_cpu=False,
    ),
    Mistake(
        name="make an int current", run=lambda d: torch.neuron.set_stream(3), error=TypeError, says=("Stream",),
        as_cpu=False,
    ),
    Mistake(
        name="foreign stream id", run=lambda d: torch.neuron.set_stream(_raw_stream(1000)), error=RuntimeError,
        says=("stream", "1000"), as_cpu=False,
    ),
    Mistake(
        name="foreign device index", run=lambda d: torch.neuron.set_stream(_raw_stream(1, 99)), error=RuntimeError,
        says=("99",), as_cpu=False,
    ),
    Mistake(
        name="synchronize a foreign stream", run=lambda d: _raw_stream(100000).synchronize(), error=RuntimeError,
        says=("stream", "100000"), as_cpu=False,
    ),
    Mistake(
        name="query a foreign stream", run=lambda d: _raw_stream(-5).query(), error=RuntimeError, says=("stream", "-5"),
        as_cpu=False,
    ),
    Mistake(
        name="record_stream of a foreign stream", run=lambda d: ones("neuron", 2).record_stream(_raw_stream(5000)),
        error=RuntimeError, says=("stream", "5000"), as_cpu=False,
    ),
    Mistake(
        name="wait for no event", run=lambda d: torch.neuron.current_stream().wait_event(3), error=(TypeError, AttributeError),
        as_cpu=False,
    ),
]  # fmt: skip


@parametrize(STREAMS)
def test_streams(mistake: Mistake) -> None:
    check(mistake)


def test_very_many_streams_share_the_slots() -> None:
    streams = [torch.neuron.Stream() for _ in range(1000)]
    assert len({stream.stream_id for stream in streams}) >= 32
    for stream in streams:
        with torch.neuron.stream(stream):
            x = torch.ones(4, device="neuron") + 1
    torch.neuron.synchronize()
    assert x.tolist() == [2.0] * 4


def test_an_event_not_recorded_is_complete_as_on_cuda() -> None:
    event = torch.neuron.Event()
    assert event.query()
    event.synchronize()
    event.wait(torch.neuron.current_stream())


def test_the_stream_context_is_left_after_an_error() -> None:
    before = torch.neuron.current_stream()
    with pytest.raises(RuntimeError), torch.neuron.stream(torch.neuron.Stream()):
        ones("neuron", 3) + ones("neuron", 4)
    assert torch.neuron.current_stream() == before


def test_the_device_context_is_left_after_an_error() -> None:
    with pytest.raises(RuntimeError), torch.neuron.device(1):
        ones("neuron", 3) + ones("neuron", 4)
    assert torch.neuron.current_device() == 0


GENERATORS = [
    Mistake(
        name="of the CPU", run=lambda d: ones("neuron", 3).normal_(generator=torch.Generator()), error=RuntimeError,
        says=("neuron", "cpu", "generator"), as_cpu=False,
    ),
    Mistake(
        name="of the device on the CPU", run=lambda d: torch.ones(3).normal_(generator=torch.Generator(device="neuron")),
        error=RuntimeError, says=("neuron", "cpu"), as_cpu=False,
    ),
    Mistake(
        name="of the CPU in a factory", run=lambda d: torch.randn(3, device="neuron", generator=torch.Generator()),
        error=RuntimeError, says=("neuron", "cpu", "generator"), as_cpu=False,
    ),
    Mistake(
        name="state of a wrong size", run=lambda d: torch.Generator(device="neuron").set_state(torch.zeros(7, dtype=torch.uint8)),
        error=RuntimeError, says=("size", "7", "16"), as_cpu=False,
    ),
    Mistake(
        name="state of a wrong dtype", run=lambda d: torch.Generator(device=d).set_state(torch.zeros(16)), error=TypeError,
        says=("ByteTensor",),
    ),
    Mistake(
        name="state on the device",
        run=lambda d: torch.Generator(device=d).set_state(torch.zeros(16, dtype=torch.uint8, device="neuron")),
        error=TypeError, says=("ByteTensor",),
    ),
    Mistake(
        name="state that is no tensor", run=lambda d: torch.neuron.set_rng_state(3), error=TypeError, as_cpu=False,
    ),
    Mistake(
        name="seed that is no number", run=lambda d: torch.neuron.manual_seed("x"), error=ValueError, as_cpu=False,
        says=("x",),
    ),
    Mistake(
        name="default generator that does not exist", run=lambda d: torch.neuron.default_generators[99], error=IndexError,
        as_cpu=False, says=("99", "4"),
    ),
    Mistake(
        name="offset of a generator", run=lambda d: torch.Generator(device="neuron").set_offset(3), error=RuntimeError,
        as_cpu=False, says=("multiple of 4", "3"),
    ),
]  # fmt: skip


@parametrize(GENERATORS)
def test_generators(mistake: Mistake) -> None:
    check(mistake)


def test_a_refused_state_leaves_the_generator_as_it_was() -> None:
    generator = torch.Generator(device="neuron").manual_seed(5)
    expected = torch.rand(4, device="neuron", generator=generator.clone_state())
    with pytest.raises(RuntimeError):
        generator.set_state(torch.zeros(7, dtype=torch.uint8))
    assert torch.equal(torch.rand(4, device="neuron", generator=generator), expected)


def test_a_device_generator_given_to_a_cpu_op_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"Expected a 'cpu' device type for generator but found 'neuron'"):
        torch.randperm(10, generator=torch.Generator(device="neuron"))


def test_data_parallel_is_refused_with_advice() -> None:
    with pytest.raises(NotImplementedError, match=r"DataParallel does not run on neuron.*DistributedDataParallel"):
        torch.nn.DataParallel(torch.nn.Linear(3, 2).to("neuron"))
