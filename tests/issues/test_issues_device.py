"""Device semantics: what users of other backends reported (repository#number in each name)."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

DEV = "neuron"
pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def test_pt_116255_transformers_44466_44471_xla_7042_1245_named_parameters_after_to():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    model = Model()
    names = [name for name, _ in model.named_parameters()]
    for move in (lambda m: m.to(DEV), lambda m: m.neuron(), lambda m: m.to("neuron:1"), lambda m: m.to(torch.bfloat16)):
        move(model)
        assert [name for name, _ in model.named_parameters()] == names
        assert model.head.weight is model.embed.weight
        assert model.state_dict()["head.weight"].data_ptr() == model.state_dict()["embed.weight"].data_ptr()


def test_pt_116255_parameter_objects_and_references_survive_to():
    layer = nn.Linear(2, 2)
    references = {"weight": layer.weight, "bias": layer.bias}
    layer.to(DEV)
    assert layer.weight is references["weight"] and references["bias"].device.type == DEV
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad and layer.weight.is_leaf


def test_pt_116255_grads_move_with_parameters():
    layer = nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    layer.to(DEV)
    assert layer.weight.grad.device.type == DEV


def test_pt_116255_buffers_and_shared_modules():
    shared = nn.BatchNorm1d(2)
    model = nn.Sequential(shared, shared).to(DEV)
    assert model[0] is model[1] and model[0].running_mean.device.type == DEV


def test_pt_196975_172564_96026_170401_set_data_and_shallow_copies():
    x = torch.zeros(2, device=DEV)
    version = x._version
    x.data = torch.ones(3, device=DEV)
    assert x.tolist() == [1, 1, 1] and x._version >= version
    y = x.detach()
    y.add_(1)
    assert x.tolist() == [2, 2, 2]
    z = torch.Tensor._make_subclass(nn.Parameter, torch.ones(2, device=DEV), True)
    assert z.device.type == DEV and z.requires_grad
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.eye(2).to_sparse()


def test_pt_196975_hooks_and_attributes_survive_set_data():
    p = nn.Parameter(torch.ones(2))
    p.tag = "kept"
    seen = []
    p.register_hook(lambda grad: seen.append(grad.device.type))
    p.data = p.data.to(DEV)
    (p * 2).sum().backward()
    assert p.tag == "kept" and seen == [DEV] and p.grad.device.type == DEV


def test_pt_134293_144955_module_is_found_under_its_name_in_any_order(run_python):
    for order in ("import torch, torch_neuronx", "import torch_neuronx, torch", "import trnsim, torch"):
        done = run_python(
            f"""
            {order}
            import trnsim
            trnsim._autoload()
            import importlib
            torch.tensor([1.0], device="neuron").storage().untyped()
            assert torch.get_device_module("neuron") is torch.neuron
            assert torch.utils.backend_registration._privateuse1_backend_name == "neuron"
            print(torch.ones(1, device="neuron").type())
            """,
            preamble="",
        )
        assert done.stdout.strip() == "torch.neuron.FloatTensor"


def test_torch_spyre_2925_pt_145611_autoload_is_not_circular(run_python):
    """Each entry first, in an interpreter of its own."""
    done = run_python(
        "import torch_neuronx, torch\nprint(torch.ones(2, device='neuron').sum().item())", preamble="", whole=True
    )
    assert done.stdout.strip() == "2.0"


def test_pt_180712_autoload_can_be_switched_off(run_python):
    done = run_python(
        """
        import torch
        try:
            torch.ones(1, device="neuron")
        except RuntimeError as error:
            print(error)
        """,
        preamble="",
        whole=True,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "neuron" in done.stdout


def test_torch_spyre_3659_the_cause_of_a_failed_start_is_shown(run_python):
    done = run_python("", check=False, TRNSIM_CHIP="trn7")
    assert done.returncode != 0 and "TRNSIM_CHIP" in done.stderr and "trn7" in done.stderr and "trn2" in done.stderr


def test_torch_spyre_3659_broken_core_names_itself(run_python):
    done = run_python(
        """
        import sys, trnsim
        sys.modules["trnsim._C"] = None     # as a missing or broken shared object
        try:
            trnsim._autoload()
        except ImportError as error:
            print("cause:", error)
        """,
        preamble="",
    )
    assert "cause:" in done.stdout and "_C" in done.stdout


def test_pytorch_dlprim_58_77_backward_works_without_further_registration():
    x = torch.ones(2, 2, device=DEV, requires_grad=True)
    (x @ x).sum().backward()
    assert x.grad.tolist() == [[4, 4], [4, 4]]
    torch.autograd.backward([(x * 2).sum(), (x * 3).sum()])
    torch.autograd.grad((x * x).sum(), x, retain_graph=True)
    assert torch.autograd.functional.jacobian(lambda v: v * 2, torch.ones(2, device=DEV)).device.type == DEV


def test_torch_spyre_3245_devices_are_named_neuron_everywhere():
    for index in range(torch.accelerator.device_count()):
        x = torch.ones(1, device=f"neuron:{index}")
        assert str(x.device) == f"neuron:{index}" and repr(x.device) == f"device(type='neuron', index={index})"
        assert x.storage().device == x.device
    assert torch.device("neuron", 1) == torch.device("neuron:1") != torch.device("neuron:0")
    assert str(torch.neuron.current_stream().device) == "neuron:0"
    assert {torch.device("neuron:0"): 1}[torch.ones(1, device=DEV).device] == 1


def test_pt_99882_117211_storage_resize():
    x = torch.arange(4.0, device="neuron:1")
    x.resize_(100)
    assert x[:4].tolist() == [0, 1, 2, 3] and x.device.index == 1
    x.untyped_storage().resize_(8)
    assert x.untyped_storage().nbytes() == 8
    out = torch.empty(0, device="neuron:1")
    torch.cat([torch.ones(3, device="neuron:1"), torch.zeros(2, device="neuron:1")], out=out)
    assert out.tolist() == [1, 1, 1, 0, 0]
    y = torch.zeros(2, device=DEV)
    view = y[1:]
    y.untyped_storage().resize_(400)
    view.fill_(3)
    assert y.tolist() == [0, 3]


def test_pt_89129_107427_deepcopy():
    x = torch.arange(3.0, device=DEV)
    state = {"x": x, "view": x[1:], "leaf": nn.Parameter(x.clone()), "empty": torch.empty(0, device=DEV)}
    twin = copy.deepcopy(state)
    twin["x"][1] = 50
    assert twin["view"][0].item() == 50 and x[1].item() == 1
    assert isinstance(twin["leaf"], nn.Parameter) and twin["empty"].device.type == DEV
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(state["leaf"] * 2)
