"""PrivateUse1 hooks and the device module: what PyTorch asks of a backend by name."""

from __future__ import annotations

import pytest
import torch

DOCUMENTED = """is_available is_initialized init device_count current_device set_device device get_device_name
get_device_properties synchronize Stream stream current_stream default_stream set_stream Event manual_seed manual_seed_all
seed seed_all initial_seed get_rng_state get_rng_state_all set_rng_state set_rng_state_all get_amp_supported_dtype
is_bf16_supported memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_stats memory_summary
reset_peak_memory_stats reset_accumulated_memory_stats empty_cache""".split()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_names_exist(name: str):
    import torch_neuronx

    assert callable(getattr(torch.neuron, name))
    assert getattr(torch_neuronx, name) is getattr(torch.neuron, name)


def test_names_of_the_compiler_and_of_nki_say_that_they_are_not_here_yet():
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'"):
        _ = torch.neuron.nonsense


def test_the_module_is_the_backends():
    assert torch.get_device_module("neuron") is torch.neuron
    assert torch.get_device_module() is torch.neuron
    assert torch._C._get_privateuse1_backend_name() == "neuron"
    assert torch.utils.backend_registration is not None


def test_properties():
    properties = torch.neuron.get_device_properties(1)
    assert properties.name == "trn2" and properties.total_memory == 24 << 30
    assert "trn2" in repr(properties)


def test_generated_methods():
    x = torch.ones(2)
    assert x.neuron().device.type == "neuron" and x.neuron().is_neuron and not x.is_neuron
    assert x.neuron(1).device.index == 1
    assert torch.nn.Linear(2, 2).neuron().weight.is_neuron
    assert x.untyped_storage().neuron().device.type == "neuron"
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1)])
    assert packed.to("neuron").data.is_neuron


def test_initialized_after_use(run_python):
    run_python(
        """
        assert not torch.neuron.is_initialized()
        torch.neuron.device_count(), torch.neuron.is_available(), torch.neuron.get_device_name()
        assert not torch.neuron.is_initialized()
        torch.ones(1, device="neuron")
        assert torch.neuron.is_initialized()
        """
    )


def test_seeding_before_first_use_does_not_initialize(run_python):
    run_python("torch.manual_seed(1); torch.neuron.manual_seed_all(2); assert not torch.neuron.is_initialized()")


def test_tensor_type_names():
    x = torch.ones(1, device="neuron")
    assert x.type() == "torch.neuron.FloatTensor"
    assert x.long().type() == "torch.neuron.LongTensor"
    assert x.storage().device.type == "neuron"
    assert torch.ones(1).type(x.type()).device.type == "neuron"


def test_repr_names_the_device():
    assert repr(torch.tensor([1.5], device="neuron")) == "tensor([1.5000], device='neuron:0')"
    assert "device='neuron:1'" in str(torch.nn.Parameter(torch.ones(2, device="neuron:1")))


@pytest.mark.parametrize(
    "name",
    [
        "get_amp_supported_dtype",
        "get_rng_state",
        "set_rng_state",
        "device",
        "_is_in_bad_fork",
        "_lazy_init",
        "current_device",
    ],
)
def test_what_pytorch_looks_up_itself(name: str):
    assert hasattr(torch.neuron, name)


def test_torch_neuronx_first(run_python):
    run_python(
        """
        import torch_neuronx
        import torch
        assert torch.ones(1, device="neuron").item() == 1
        assert torch_neuronx.device_count() == 4
        """,
        preamble="",
        whole=True,
    )


def test_get_device_from_pointer_and_foreign_pointers():
    x = torch.ones(10, device="neuron:1")
    assert x.data_ptr() != 0 and x.untyped_storage().device == torch.device("neuron:1")


def test_deterministic_mode_fills_fresh_memory_as_elsewhere():
    """torch.utils.deterministic.fill_uninitialized_memory: NaN for floats, the largest value for integers."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device="neuron").isnan().all().item()
        assert torch.empty(3, dtype=torch.int32, device="neuron").tolist() == [2**31 - 1] * 3
        assert torch.empty_like(torch.ones(3, device="neuron")).isnan().all().item()
        x = torch.ones(2, device="neuron")
        assert x.resize_(4)[2:].isnan().all().item()
    finally:
        torch.use_deterministic_algorithms(False)


def test_messages_point_at_pages_that_exist():
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    with pytest.raises(AttributeError) as info:
        _ = torch.neuron.nonsense
    for word in str(info.value).replace(",", " ").split():
        if word.startswith("docs/"):
            assert (root / word).is_file(), word
