"""0. Hello, device.

`import torch` is enough: the device `neuron` registers itself. (The tests' conftest calls trnsim._autoload(), which is what
PyTorch does on import, so that they also run where trnsim is not installed.)
"""

import torch


def test_the_device_is_there():
    assert torch.neuron.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("neuron")


def test_a_tensor_on_it():
    x = torch.tensor([1.0, 2.0, 3.0], device="neuron")
    y = (x * 2 + 1).cpu()
    assert y.tolist() == [3, 5, 7]
    assert repr(x) == "tensor([1., 2., 3.], device='neuron:0')"


def test_which_machine_is_simulated():
    """By default one trn2.3xlarge: a Trainium2 chip, eight cores, seen as four logical cores of 24 GiB each.

    TRNSIM_INSTANCE, TRNSIM_CHIP and NEURON_LOGICAL_NC_CONFIG choose another one.
    """
    assert torch.neuron.device_count() == 4
    properties = torch.neuron.get_device_properties()
    assert properties.name == "trn2" and properties.total_memory == 24 * 2**30


def test_numbers_are_pytorchs_own():
    """Ops run PyTorch's CPU kernels on device memory, so results are equal, not merely close."""
    x = torch.linspace(-3, 3, 1000)
    assert torch.equal(torch.sin(x.to("neuron")).cpu(), torch.sin(x))
