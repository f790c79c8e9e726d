"""Sparse, quantized, nested and mkldnn tensors: they work, or one clear error says what to do."""

from __future__ import annotations

import pytest
import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*[Ss]parse.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*nested.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*quantiz.*"),
]


def sparse() -> torch.Tensor:
    return torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2))


@pytest.mark.parametrize(
    "use",
    [
        lambda: sparse().to("neuron"),
        lambda: sparse().to_sparse_csr().to("neuron").sum(),  # made of dense parts: refused at its first use
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="neuron"),
        lambda: torch.eye(2, device="neuron").to_sparse(),
        lambda: torch.eye(2, device="neuron").to_sparse_csr(),
        lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), device="neuron").sum(),
        lambda: torch.empty(2, 2, layout=torch.sparse_coo, device="neuron"),
    ],
    ids=["coo to", "csr to", "coo", "to_sparse", "to_sparse_csr", "csr", "empty"],
)
def test_sparse_is_refused_with_advice(use):
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?si)sparse.*to_dense"):
        use()
    assert (torch.ones(2, device="neuron") + 1).sum().item() == 4


def test_dense_form_of_sparse_moves():
    assert sparse().to_dense().to("neuron").tolist() == [[0, 1], [2, 0]]


def test_sparse_embedding_gradients_are_refused_with_advice():
    layer = torch.nn.Embedding(4, 2, sparse=True).to("neuron")
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?s)sparse"):
        layer(torch.tensor([1], device="neuron")).sum().backward()
    dense = torch.nn.Embedding(4, 2).to("neuron")
    dense(torch.tensor([1, 1], device="neuron")).sum().backward()
    assert dense.weight.grad.sum().item() == 4


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to("neuron"),
        lambda: torch.quantize_per_tensor(torch.ones(2, device="neuron"), 0.1, 0, torch.qint8),
    ],
    ids=["to", "quantize"],
)
def test_quantized_is_refused_with_advice(use):
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?s)quantized.*dequantize|dequantize"):
        use()


def test_dequantized_form_moves():
    q = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)
    assert q.dequantize().to("neuron").tolist() == [1, 1]


def test_strided_nested_is_refused_with_advice():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?s)nested.*jagged"):
        nested.to("neuron")
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?s)nested.*jagged"):
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="neuron") * 2


def test_jagged_nested_tensors_work():
    parts = [torch.arange(2.0), torch.arange(3.0)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, device="neuron")
    doubled = nested * 2
    assert doubled.device.type == "neuron"
    assert [t.tolist() for t in doubled.unbind()] == [[0, 2], [0, 2, 4]]
    assert torch.nested.to_padded_tensor(doubled, 0.0).tolist() == [[0, 2, 0], [0, 2, 4]]


def test_mkldnn_layout_is_refused():
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.ones(2, 2, device="neuron").to_mkldnn()


def test_channels_last_tensors_compute():
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    conv = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    expected = conv(x)
    ours = conv.to("neuron")(x.to("neuron"))
    torch.testing.assert_close(ours.cpu(), expected)


def test_masked_and_complex_work():
    x = torch.tensor([1 + 1j, 2 - 1j], device="neuron")
    assert (x * x.conj()).real.tolist() == [2, 5]
    assert torch.fft.fft(torch.ones(4, device="neuron")).tolist() == [4, 0, 0, 0]


def test_module_with_packed_sequence():
    lstm = torch.nn.LSTM(2, 3, batch_first=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 2), [3, 2], batch_first=True)
    expected, _ = lstm(packed)
    ours, _ = lstm.to("neuron")(packed.to("neuron"))
    torch.testing.assert_close(ours.data.cpu(), expected.data)
