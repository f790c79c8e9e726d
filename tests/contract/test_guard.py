"""Device guard: current device per thread, context managers, torch.accelerator."""

from __future__ import annotations

import threading

import pytest
import torch


def test_counts_and_names():
    assert torch.neuron.is_available() and torch.neuron.device_count() == torch.accelerator.device_count() == 4
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.neuron.get_device_name() == "trn2"
    assert torch.device("neuron:3").index == 3 and torch.device("neuron").index is None


def test_set_device():
    torch.neuron.set_device(2)
    try:
        assert torch.neuron.current_device() == 2 == torch.accelerator.current_device_index()
        assert torch.empty(1, device="neuron").device == torch.device("neuron:2")
    finally:
        torch.neuron.set_device("neuron:0")


def test_device_context_restores_even_after_an_error():
    with pytest.raises(ZeroDivisionError), torch.neuron.device(1):
        assert torch.ones(1, device="neuron").device.index == 1
        _ = 1 / 0
    assert torch.neuron.current_device() == 0


def test_nested_contexts():
    with torch.neuron.device("neuron:1"):
        with torch.neuron.device(torch.device("neuron", 2)):
            assert torch.neuron.current_device() == 2
        with torch.neuron.device(-1):
            assert torch.neuron.current_device() == 1
        assert torch.neuron.current_device() == 1


def test_device_of_a_tensor():
    x = torch.ones(1, device="neuron:3")
    with torch.neuron.device_of(x):
        assert torch.neuron.current_device() == 3
    with torch.neuron.device_of(torch.ones(1)):
        assert torch.neuron.current_device() == 0


def test_accelerator_device_index_context():
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(1)
    torch.accelerator.set_device_index(0)


def test_ops_run_on_their_inputs_device_and_leave_the_current_one():
    x = torch.arange(6.0, device="neuron:2").reshape(2, 3)
    for y in (x + 1, x @ x.T, x.sum(), x.clone(), torch.zeros_like(x), x.new_ones(2), x[0], x.to(torch.int32)):
        assert y.device.index == 2
    assert torch.neuron.current_device() == 0


def test_each_thread_has_its_own_current_device():
    seen = []

    def work():
        seen.append(torch.neuron.current_device())
        torch.neuron.set_device(3)
        seen.append(torch.ones(1, device="neuron").device.index)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, 3] and torch.neuron.current_device() == 0


@pytest.mark.parametrize("index", [4, 99, 127])
def test_bad_index_is_refused_with_the_range(index: int):
    for use in (
        lambda: torch.ones(1, device=f"neuron:{index}"),
        lambda: torch.neuron.set_device(index),
        lambda: torch.ones(1).to(f"neuron:{index}"),
        lambda: torch.neuron.synchronize(index),
        lambda: torch.neuron.device(index).__enter__(),
    ):
        with pytest.raises(RuntimeError, match=rf"neuron:{index} does not exist.*indices 0 to 3"):
            use()
    assert torch.ones(1, device="neuron").item() == 1


def test_other_device_types_are_refused_by_the_module():
    with pytest.raises(ValueError, match="Expected a neuron device"):
        torch.neuron.set_device("cpu")
    with pytest.raises(TypeError, match="needed"):
        torch.neuron.set_device(None)
    with pytest.raises(TypeError, match="float"):
        torch.neuron.device(1.5)


def test_an_int_means_a_neuron_device():
    assert torch.ones(1).to(0).device == torch.device("neuron:0")
    assert torch.ones(1, device=1).device == torch.device("neuron:1")
    assert torch.nn.Linear(2, 2).to(2).weight.device == torch.device("neuron:2")


def test_default_device():
    with torch.device("neuron"):
        assert torch.ones(2).device.type == "neuron"
        assert torch.nn.Linear(2, 2).weight.device.type == "neuron"
        assert torch.tensor([1, 2]).device.type == "neuron"
        assert torch.arange(3).device.type == "neuron"
    torch.set_default_device("neuron:1")
    try:
        assert torch.zeros(1).device == torch.device("neuron:1")
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"


def test_capability_lists_dtypes():
    capability = torch.accelerator.get_device_capability()
    assert {torch.float32, torch.bfloat16, torch.float16, torch.int32} <= set(capability["supported_dtypes"])


def test_fewer_visible_cores(run_python):
    done = run_python("print(torch.neuron.device_count(), torch.accelerator.device_count())", NEURON_RT_NUM_CORES="2")
    assert done.stdout.split() == ["2", "2"]
    done = run_python("print(torch.neuron.device_count())", NEURON_RT_VISIBLE_CORES="1-3")
    assert done.stdout.split() == ["3"]


def test_logical_core_configuration(run_python):
    code = "print(torch.neuron.device_count(), torch.neuron.get_device_properties().total_memory >> 30)"
    assert run_python(code, NEURON_LOGICAL_NC_CONFIG="1").stdout.split() == ["8", "12"]
    assert run_python(code, TRNSIM_INSTANCE="trn2.48xlarge").stdout.split() == ["64", "24"]


def test_128_devices_are_refused(run_python):
    done = run_python("", check=False, TRNSIM_INSTANCE="trn2.48xlarge", NEURON_LOGICAL_NC_CONFIG="1")
    assert done.returncode != 0 and "NEURON_RT_VISIBLE_CORES" in done.stderr
