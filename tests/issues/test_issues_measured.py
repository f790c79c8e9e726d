"""Faults M1 to M25, measured on torch 2.13 with a minimal PrivateUse1 backend; README.md lists those out of scope."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from trnsim import ledger

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")
DEV = "neuron"


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.emb(ids))


def test_m01_tied_weights_stay_tied_after_to():
    model = Tied().to(DEV)
    assert model.head.weight is model.emb.weight
    assert model.head.weight.data_ptr() == model.emb.weight.data_ptr()
    assert len(list(model.parameters())) == 1
    back = model.to("cpu")
    assert back.head.weight is back.emb.weight


def test_m01_tied_weights_train_as_on_cpu():
    def train(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        model = Tied().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.tensor([1, 2, 3], device=device)).square().sum().backward()
            optimizer.step()
        return model.emb.weight.detach().cpu()

    torch.testing.assert_close(train(DEV), train("cpu"))


def test_m02_optimizer_built_before_to_trains_the_moved_parameters():
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    weight = layer.weight
    layer.to(DEV)
    assert layer.weight is weight and optimizer.param_groups[0]["params"][0] is layer.weight
    before = layer.weight.detach().cpu().clone()
    layer(torch.ones(1, 2, device=DEV)).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight.cpu(), before - 1)


def test_m03_data_assignment_across_devices():
    p = nn.Parameter(torch.arange(3.0))
    p.data = p.data.to(DEV)
    assert p.device.type == DEV and p.tolist() == [0, 1, 2]
    p.data = p.data.cpu()
    assert p.device.type == "cpu"
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2, 2, 2]


def test_m03_data_assignment_with_another_dtype():
    p = nn.Parameter(torch.ones(2, device=DEV))
    p.data = p.data.bfloat16()
    assert p.dtype == torch.bfloat16 and p.device.type == DEV


def test_m04_writes_through_unfold_and_view_as_real_arrive():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.zeros(4, device=DEV)
        x.unfold(0, 2, 1)[0, 0] = 9
        z = torch.zeros(1, dtype=torch.complex64, device=DEV)
        torch.view_as_real(z)[0, 0] = 3
    assert x.tolist() == [9, 0, 0, 0] and z.tolist() == [3]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.diagonal(),
        lambda x: x.select(0, 1),
        lambda x: x.movedim(0, 1),
        lambda x: x.view(torch.int32).view(torch.float32),
        lambda x: torch.ops.aten.squeeze(x.unsqueeze(0), 0),
        lambda x: x.unbind(0)[0],
        lambda x: torch.split_with_sizes(x, [1, 3])[1],
        lambda x: torch.real(torch.complex(x, x)).squeeze(),
        lambda x: x.transpose(0, 1).permute(1, 0),
        lambda x: x.as_strided((2, 2), (1, 4)),
    ],
)
def test_m04_no_view_op_falls_back(view):
    with ledger.assert_no_fallback(allow=("aten::complex",)):
        view(torch.ones(4, 4, device=DEV))


def test_m05_conj_and_neg_bits_read_right():
    z = torch.tensor([1 + 2j], device=DEV)
    assert z.conj().tolist() == [1 - 2j] == z.conj().cpu().tolist()
    assert z.conj().clone().tolist() == [1 - 2j] and z.conj().conj().tolist() == [1 + 2j]
    assert z.conj().imag.tolist() == [-2] == z.conj().imag.clone().tolist()
    assert "1.-2.j" in repr(z.conj())
    out = torch.empty(1, dtype=torch.complex64, device=DEV)
    out.conj().copy_(z)
    assert out.tolist() == [1 - 2j]
    assert z.to("neuron:1").conj().resolve_conj().tolist() == [1 - 2j]


def test_m06_cpu_index_is_refused():
    x, index = torch.ones(3, device=DEV), torch.tensor([0])
    for call in (
        lambda: torch.gather(x, 0, index),
        lambda: torch.index_select(x, 0, index),
        lambda: x.scatter(0, index, 1.0),
        lambda: x.scatter_add(0, index, torch.ones(1, device=DEV)),
        lambda: torch.take(x, index),
        lambda: nn.functional.embedding(index, x[None]),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            call()


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False, "batch_first": True}]
)
def test_m07_recurrent_layers(kind: str, options: dict):
    torch.manual_seed(0)
    layer = getattr(nn, kind)(3, 4, **options)
    x = torch.randn(5, 2, 3)
    expected = layer(x)[0]
    expected.square().sum().backward()
    gradients = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    ours = layer.to(DEV)(x.to(DEV))[0]
    ours.square().sum().backward()
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-5)
    for p, gradient in zip(layer.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad.cpu(), gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_m07_recurrent_cells(kind: str):
    cell = getattr(nn, kind)(3, 4)
    x = torch.randn(2, 3)
    expected, ours = cell(x), cell.to(DEV)(x.to(DEV))
    for a, b in zip(
        ours if isinstance(ours, tuple) else [ours], expected if isinstance(expected, tuple) else [expected]
    ):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Conv1d(4, 6, 3, padding=1), (2, 4, 9)),
        (lambda: nn.Conv2d(4, 6, 3, stride=2, dilation=2), (2, 4, 9, 9)),
        (lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), (2, 4, 9, 9)),
        (lambda: nn.Conv2d(4, 6, 3, padding="same", padding_mode="reflect"), (2, 4, 9, 9)),
        (lambda: nn.Conv3d(4, 2, 2), (1, 4, 4, 4, 4)),
        (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), (2, 4, 5, 5)),
        (lambda: nn.Conv2d(4, 6, 3), (4, 9, 9)),
    ],
    ids=["1d", "2d", "depthwise", "same", "3d", "transposed", "unbatched"],
)
def test_m08_convolutions_forward_and_backward(layer, shape: tuple[int, ...]):
    torch.manual_seed(0)
    module = layer()
    x = torch.randn(shape, requires_grad=True)
    expected = module(x)
    expected.square().sum().backward()
    gradients = [x.grad, *(p.grad.clone() for p in module.parameters())]
    module.zero_grad()
    y = x.detach().to(DEV).requires_grad_()
    ours = module.to(DEV)(y)
    ours.square().sum().backward()
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-4)
    for mine, theirs in zip([y.grad, *(p.grad for p in module.parameters())], gradients, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-3, atol=1e-3)


def test_m09_transformer_encoder_in_eval_is_not_one_fallback():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected = layer(x, src_key_padding_mask=mask)
        layer.to(DEV)
        with ledger.record() as session:
            ours = layer(x.to(DEV), src_key_padding_mask=mask.to(DEV))
    keep = ~mask
    torch.testing.assert_close(ours.cpu()[keep], expected[keep], rtol=1e-4, atol=1e-5)
    assert not any("_transformer_encoder_layer_fwd" in stat.op for stat in session.fallbacks())
    assert not any("_native_multi_head_attention" in stat.op for stat in session.fallbacks())


def test_m10_backward_needs_events_in_the_guard():
    x = torch.ones(2, device=DEV, requires_grad=True)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with torch.neuron.stream(torch.neuron.Stream()):
        (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_m11_autocast_casts():
    layer = nn.Linear(2, 2).to(DEV)
    with torch.autocast(DEV, dtype=torch.bfloat16):
        y = layer(torch.ones(1, 2, device=DEV))
        assert y.dtype == torch.bfloat16
        assert nn.functional.softmax(y, -1).dtype == torch.float32
        assert torch.fft.fft(torch.ones(4, device=DEV)).numel() == 4  # an op on no list


def test_m12_accelerator_memory():
    x = torch.empty(1000, device=DEV)
    assert torch.accelerator.memory_allocated() > 0 and torch.accelerator.max_memory_reserved() > 0
    assert torch.accelerator.memory_stats()["allocation.all.current"] > 0
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    del x


def test_m13_load_of_device_tensors(tmp_path):
    torch.save(torch.arange(3.0, device="neuron:1"), tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt").device == torch.device("neuron:1")


def test_m14_sparse_and_quantized_have_one_clear_error():
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)sparse.*to_dense"):
        torch.sparse_coo_tensor([[0], [0]], [1.0], (2, 2)).to(DEV)
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)dequantize"):
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to(DEV)


def test_m15_dlpack_device():
    assert torch.ones(1, device=DEV).__dlpack_device__()[1] == 0
    x = torch.ones(2, device=DEV)
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


def test_m16_generator():
    assert torch.Generator(device=DEV).manual_seed(3).initial_seed() == 3


def test_m17_rng_state_as_dtensor_needs_it():
    assert torch.neuron.get_rng_state().numel() == 16
    torch.neuron.set_rng_state(torch.neuron.get_rng_state())


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("kind", ["AdamW", "Adam", "SGD"])
def test_m18_optimizers_step_natively(kind: str, options: dict):
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer = nn.Linear(3, 2).to(device)
        optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1, **options)
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.ones(1, 3, device=device)).square().sum().backward()
            optimizer.step()
        return [p.detach().cpu() for p in layer.parameters()]

    torch.testing.assert_close(train(DEV), train("cpu"))


def test_m18_the_time_model_sees_foreach_and_fused():
    def step_ops(**options) -> int:
        parameters = [nn.Parameter(torch.ones(4, device=DEV)) for _ in range(10)]
        for p in parameters:
            p.grad = torch.ones_like(p)
        optimizer = torch.optim.AdamW(parameters, **options)
        optimizer.step()
        with ledger.record() as session:
            optimizer.step()
        return sum(stat.count for stat in session.ops())

    assert step_ops(fused=True) < step_ops(foreach=True) < step_ops(foreach=False)


def test_m19_print_records_nothing():
    x = torch.randn(5, 5).to(DEV)
    with ledger.record() as session:
        str(x), repr(x[0]), f"{x.sum(0)}" and None
    assert [stat.op for stat in session.ops()] == ["aten::sum.dim_IntList"] and session.fallbacks() == []


def test_m20_worker_returning_a_device_tensor_does_not_hang(run_python):
    """It arrives with its values, or the error says what to do at once; upstream's loader waits for its timeout."""
    done = run_python(
        """
        import time
        from torch.utils.data import DataLoader, Dataset
        class OnDevice(Dataset):
            def __len__(self): return 2
            def __getitem__(self, index): return torch.full((2,), index + 1.0, device="neuron")
        begin = time.time()
        try:
            print(sum(batch.sum().item() for batch in DataLoader(OnDevice(), num_workers=1, timeout=20)))
        except RuntimeError as error:
            print(error)
        print("seconds", time.time() - begin < 15)
        """,
        timeout=60,
    )
    assert "seconds True" in done.stdout
    assert "6.0" in done.stdout or ("neuron" in done.stdout and "CPU" in done.stdout)


@pytest.mark.parametrize("backend", ["inductor", "neuron"])
def test_m21_compile_runs_and_says_that_nothing_is_compiled(backend):
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="no graph compiler for neuron"):
        result = torch.compile(lambda v: v.sin(), backend=backend)(torch.ones(2, device=DEV))
    assert result.device.type == DEV and torch.equal(result.cpu(), torch.ones(2).sin())
    torch._dynamo.reset()


def test_m25_device_interface():
    from torch._dynamo.device_interface import get_interface_for_device

    assert get_interface_for_device(DEV).device_count() == torch.neuron.device_count()
