"""torch.save and load, map_location, pickle, deepcopy, between processes."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict
from pathlib import Path

import pytest
import torch


def through_file(value, **kwargs):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_tensor_comes_back_on_its_device(dtype: torch.dtype):
    x = torch.arange(4, device="neuron:1").to(dtype)
    y = through_file(x)
    assert y.device == x.device and y.dtype == dtype and torch.equal(x, y)


@pytest.mark.parametrize(
    ("where", "device"),
    [
        ("cpu", "cpu"),
        ("neuron", "neuron:0"),
        ("neuron:2", "neuron:2"),
        (torch.device("neuron:3"), "neuron:3"),
        ({"neuron:1": "cpu"}, "cpu"),
        ({"neuron:1": "neuron:2"}, "neuron:2"),
        (lambda storage, tag: storage, "cpu"),
    ],
    ids=["cpu", "neuron", "neuron:2", "device", "dict", "dict2", "callable"],
)
def test_map_location(where, device: str):
    x = torch.arange(3.0, device="neuron:1")
    y = through_file(x, map_location=where)
    assert y.device == torch.device(device) and y.tolist() == [0, 1, 2]


def test_cpu_checkpoint_to_the_device():
    layer = torch.nn.Linear(3, 3)
    state = through_file(layer.state_dict(), map_location="neuron")
    assert all(value.device.type == "neuron" for value in state.values())
    moved = torch.nn.Linear(3, 3).to("neuron")
    moved.load_state_dict(layer.state_dict())
    assert torch.equal(moved.weight.cpu(), layer.weight)


def test_load_state_dict_with_assign():
    state = torch.nn.Linear(2, 2).to("neuron").state_dict()
    layer = torch.nn.Linear(2, 2, device="meta")
    layer.load_state_dict(state, assign=True)
    assert layer.weight.device.type == "neuron"


def test_shared_storage_stays_shared():
    x = torch.arange(6.0, device="neuron")
    a, b, whole = through_file([x[:3], x[3:], x])
    whole[0] = 50
    assert a[0].item() == 50 and b.tolist() == [3, 4, 5]
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata


def test_tied_parameters_stay_tied():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})
    model["b"].weight = model["a"].weight
    loaded = through_file(model.to("neuron"), weights_only=False)
    assert loaded["a"].weight is loaded["b"].weight or loaded["a"].weight.data_ptr() == loaded["b"].weight.data_ptr()


def test_views_layout_and_flags_survive():
    x = torch.arange(6.0, device="neuron").reshape(2, 3).t()
    assert through_file(x).stride() == x.stride()
    p = through_file(torch.nn.Parameter(torch.ones(2, device="neuron")))
    assert isinstance(p, torch.nn.Parameter) and p.requires_grad and p.device.type == "neuron"
    z = torch.tensor([1 + 2j], device="neuron").conj()
    assert through_file(z).tolist() == [1 - 2j]


def test_legacy_format_and_files(tmp_path: Path):
    x = torch.arange(3.0, device="neuron")
    file = tmp_path / "x.pt"
    torch.save(x, file, _use_new_zipfile_serialization=False)
    assert torch.load(file).device == x.device
    torch.save(x, file)
    assert torch.load(file, mmap=True, map_location="cpu").tolist() == [0, 1, 2]


def test_optimizer_state():
    layer = torch.nn.Linear(2, 2).to("neuron")
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2, device="neuron")).sum().backward()
    optimizer.step()
    state = through_file(optimizer.state_dict())
    fresh = torch.optim.Adam(layer.parameters())
    fresh.load_state_dict(state)
    assert fresh.state[layer.weight]["exp_avg"].device.type == "neuron"


def test_index_of_a_device_that_is_not_there():
    buffer = io.BytesIO()
    torch.save(torch.ones(1, device="neuron:3"), buffer)
    renamed = buffer.getvalue().replace(b"neuron:3", b"neuron:9")
    with pytest.raises(RuntimeError, match="neuron"):
        torch.load(io.BytesIO(renamed))


def test_pickle():
    x = torch.arange(3.0, device="neuron:1")
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device and y.tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(x.device)) == x.device


def test_pickle_between_processes(run_python, tmp_path: Path):
    file = tmp_path / "tensor.pickle"
    file.write_bytes(pickle.dumps({"w": torch.arange(3.0, device="neuron:1")}))
    done = run_python(
        f"""
        import pickle
        w = pickle.loads(open({str(file)!r}, "rb").read())["w"]
        print(w.device, w.tolist())
        """
    )
    assert done.stdout.split(maxsplit=1) == ["neuron:1", "[0.0, 1.0, 2.0]\n"]


@pytest.mark.parametrize(
    "make", [lambda: torch.arange(6.0, device="neuron").reshape(2, 3)[:, 1:], lambda: torch.ones(0, 3, device="neuron")]
)
def test_deepcopy(make):
    x = make()
    y = copy.deepcopy(x)
    assert y.device == x.device and y.stride() == x.stride() and torch.equal(x, y)
    assert y.numel() == 0 or y.data_ptr() != x.data_ptr()


def test_deepcopy_of_a_model_keeps_sharing_inside_and_none_outside():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).to("neuron")
    model[1].weight = model[0].weight
    twin = copy.deepcopy(model)
    assert twin[0].weight is twin[1].weight and twin[0].weight is not model[0].weight
    with torch.no_grad():
        twin[0].weight.zero_()
    assert model[0].weight.abs().sum().item() > 0


def test_state_dict_is_ordered_and_on_the_device():
    state = torch.nn.BatchNorm1d(3).to("neuron").state_dict()
    assert isinstance(state, OrderedDict) and {value.device.type for value in state.values()} == {"neuron"}


def test_safetensors(tmp_path: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    file = tmp_path / "x.safetensors"
    safetensors.save_file({"x": torch.arange(3.0, device="neuron")}, file)
    loaded = safetensors.load_file(file)["x"].to("neuron")
    assert loaded.tolist() == [0, 1, 2]


def test_swap_on_conversion_flag():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = torch.nn.Linear(2, 2)
        weight = layer.weight
        layer.to("neuron")
        assert layer.weight is weight and weight.device.type == "neuron"
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
