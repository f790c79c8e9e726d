"""The boxed kernel: in-place, out=, lists, optional tensors, scalars, mixed devices, errors, custom ops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

DEV = "neuron"
pytestmark = pytest.mark.filterwarnings("ignore::trnsim.errors.NeuronFallbackWarning")


def test_in_place_returns_self():
    x = torch.ones(3, device=DEV)
    address = x.data_ptr()
    for y in (x.add_(1), x.mul_(2), x.relu_(), x.clamp_(0, 3), x.zero_(), x.fill_(4), x.neg_(), x.sqrt_()):
        assert y is x and x.data_ptr() == address


def test_in_place_on_every_layout():
    x, y = torch.zeros(4, 4, device=DEV), torch.zeros(4, 4)
    for t in (x, y):
        t[:, 1] += 1
        t.t()[2].add_(2)
        t[::2, ::2] -= 3
        t.diagonal().mul_(2)
        t[t > 1] = 9
        t[[0, 1], [2, 3]] = 5
    assert torch.equal(x.cpu(), y)


def test_out_is_written_resized_and_returned():
    a = torch.ones(2, 3, device=DEV)
    out = torch.empty(2, 3, device=DEV)
    assert torch.add(a, 1, out=out) is out and out.sum().item() == 12
    empty = torch.empty(0, device=DEV)
    torch.mul(a, 3, out=empty)
    assert empty.shape == (2, 3) and empty.sum().item() == 18
    strided = torch.zeros(3, 4, device=DEV)[:, ::2]
    torch.add(a.t(), 0, out=strided)
    assert strided.sum().item() == 6


def test_out_with_a_view_of_a_bigger_tensor():
    big = torch.zeros(4, 3, device=DEV)
    torch.matmul(torch.ones(2, 2, device=DEV), torch.ones(2, 3, device=DEV), out=big[1:3])
    assert big.cpu().tolist() == [[0] * 3, [2] * 3, [2] * 3, [0] * 3]


def test_out_of_the_wrong_kind():
    a = torch.ones(2, device=DEV)
    with pytest.raises(RuntimeError, match="device"):
        torch.add(a, a, out=torch.empty(2))
    with pytest.raises(RuntimeError, match="device"):
        torch.add(torch.ones(2), torch.ones(2), out=torch.empty(2, device=DEV))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(a, a, out=torch.empty(2, dtype=torch.int32, device=DEV))


def test_several_outputs_and_out_tuples():
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]], device=DEV)
    values, indices = x.max(1)
    assert values.tolist() == [3, 5] and indices.tolist() == [0, 1]
    out = torch.empty(2, device=DEV), torch.empty(2, dtype=torch.int64, device=DEV)
    result = torch.max(x, 1, out=out)
    assert result.values is out[0] and out[1].tolist() == [0, 1]


def test_lists_in_and_out():
    a, b = torch.ones(2, device=DEV), torch.zeros(3, device=DEV)
    assert torch.cat([a, b]).tolist() == [1, 1, 0, 0, 0]
    assert torch.stack([a, a]).shape == (2, 2)
    assert [t.device.type for t in torch.meshgrid(a, b, indexing="ij")] == [DEV, DEV]
    assert torch.block_diag(a, b).device.type == DEV
    torch._foreach_add_([a, b], 1)
    assert a.tolist() == [2, 2] and b.tolist() == [1, 1, 1]
    assert [t.tolist() for t in torch._foreach_mul([a, b], [2.0, 3.0])] == [[4, 4], [3, 3, 3]]
    assert torch.einsum("i,i->", a, a).item() == 8
    assert len(torch.broadcast_tensors(a[:1], b)) == 2
    assert torch.cat([a, torch.empty(0, device=DEV)]).shape == (2,)


def test_optional_tensors():
    x = torch.randn(4, 3, device=DEV)
    weight, bias = torch.ones(3, device=DEV), torch.zeros(3, device=DEV)
    for w, b in ((weight, bias), (weight, None), (None, None)):
        assert F.layer_norm(x, (3,), w, b).device.type == DEV
    assert F.linear(x, torch.ones(2, 3, device=DEV), None).shape == (4, 2)
    assert F.batch_norm(x, None, None, training=True).shape == (4, 3)
    assert torch.bucketize(x, torch.tensor([0.0], device=DEV)).dtype == torch.int64


def test_optional_index_lists():
    x = torch.arange(24.0, device=DEV).reshape(2, 3, 4)
    i = torch.tensor([0, 2], device=DEV)
    y = x.cpu()
    assert torch.equal(x[:, i].cpu(), y[:, i.cpu()])
    assert torch.equal(x[..., i].cpu(), y[..., i.cpu()])
    assert torch.equal(x[:, None, i, 1].cpu(), y[:, None, i.cpu(), 1])
    x[:, i] = 0
    y[:, i.cpu()] = 0
    assert torch.equal(x.cpu(), y)
    x.index_put_((torch.tensor([0, 0], device=DEV), i), torch.ones((), device=DEV), accumulate=True)
    y.index_put_((torch.tensor([0, 0]), i.cpu()), torch.ones(()), accumulate=True)
    assert torch.equal(x.cpu(), y)


def test_cpu_index_tensors_are_accepted_for_indexing_as_on_cuda():
    x = torch.arange(4.0, device=DEV)
    assert x[torch.tensor([1, 3])].tolist() == [1, 3]
    x[torch.tensor([True, False, False, True])] = 0
    assert x.tolist() == [0, 1, 2, 0]


# 0-dim CPU scalars and mixed devices


def test_cpu_scalars_mix():
    x = torch.arange(3.0, device=DEV)
    s = torch.tensor(2.0)
    for y in (x * s, s * x, x + s, torch.where(x > 1, x, s), x.pow(s), x.add_(torch.tensor(0)), torch.maximum(x, s)):
        assert y.device.type == DEV
    assert (x * s).tolist() == [0, 2, 4]
    assert (x.half() * torch.tensor(2.5, dtype=torch.float64)).dtype == torch.float16  # a 0-dim tensor does not promote


@pytest.mark.parametrize(
    "op",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: torch.matmul(x, y),
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.stack([y, x]),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: x.add_(y),
        lambda x, y: y.add_(x),
        lambda x, y: F.linear(x, y),
        lambda x, y: F.mse_loss(x, y),
        lambda x, y: torch.equal(x, y),
        lambda x, y: torch.maximum(x, y),
        lambda x, y: torch.addmm(x, y, y),
        lambda x, y: x.lerp(y, 0.5),
        lambda x, y: F.embedding(y.long(), x),
        lambda x, y: F.layer_norm(x, (2,), y[0]),
        lambda x, y: F.conv2d(x[None, None], y[None, None]),
        lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
        lambda x, y: torch._foreach_add([x], [y]),
        lambda x, y: x.masked_fill(y > 0, 0.0),
        lambda x, y: x.scatter(0, torch.zeros(1, 2, dtype=torch.int64, device=DEV), y),
        lambda x, y: F.cross_entropy(x, torch.zeros(2, dtype=torch.int64)),
        lambda x, y: x.index_select(0, torch.zeros(1, dtype=torch.int64)),
        lambda x, y: torch.gather(x, 0, torch.zeros(2, 2, dtype=torch.int64)),
        lambda x, y: x.index_add(0, torch.tensor([0, 1]), x),
        lambda x, y: torch.take(x, torch.tensor([0])),
        lambda x, y: torch.searchsorted(x[0], y[0]),
        lambda x, y: torch.linalg.solve(x, y),
        lambda x, y: x.index_put_((torch.tensor([0], device=DEV),), y[:1]),
        lambda x, y: x.__setitem__(torch.tensor([0, 1], device=DEV), y),
        lambda x, y: y[torch.tensor([0], device=DEV)],
        lambda x, y: y.index_put_((torch.tensor([0], device=DEV),), y[:1]),
    ],
)
def test_mixed_devices_raise_as_on_cuda(op):
    x, y = torch.ones(2, 2, device=DEV), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=r"(?i)device"):
        op(x, y)
    assert (x + 1).tolist() == [[2, 2], [2, 2]] and y.tolist() == [[1, 1], [1, 1]]


def test_mixed_device_message_names_both_devices_and_the_fix():
    with pytest.raises(RuntimeError) as info:
        torch.ones(2, device=DEV) + torch.ones(2)
    text = str(info.value)
    assert "Expected all tensors to be on the same device" in text and "neuron:0" in text and "cpu" in text
    assert '.to("neuron")' in text and "aten::add" in text


def test_slices_take_cpu_values_as_on_cuda():
    x = torch.zeros(3, device=DEV)
    x[:2] = torch.ones(2)  # a copy, not an op on two devices
    x[torch.tensor([2], device=DEV)] = torch.tensor(5.0)
    assert x.tolist() == [1, 1, 5]


def test_two_neuron_devices_raise():
    with pytest.raises(RuntimeError, match=r"same device.*neuron:0 and neuron:1"):
        torch.ones(2, device="neuron:0") + torch.ones(2, device="neuron:1")
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([torch.ones(2, device="neuron:0"), torch.ones(2, device="neuron:1")])


# Errors of the user's arguments


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x[5], IndexError, "out of bounds"),
        (lambda x: x[torch.tensor([7], device=DEV)], IndexError, "out of bounds"),
        (lambda x: x.sum(3), IndexError, "Dimension out of range"),
        (lambda x: F.embedding(torch.tensor([9], device=DEV), x), IndexError, "out of range"),
        (lambda x: x @ torch.ones(5, 5, device=DEV), RuntimeError, "shapes cannot be multiplied"),
        (lambda x: x + torch.ones(7, device=DEV), RuntimeError, "must match the size"),
        (lambda x: torch.cat([x, torch.ones(3, 3, device=DEV)]), RuntimeError, "Sizes of tensors must match"),
        (lambda x: x @ x.long(), RuntimeError, "dtype"),
        (lambda x: x.long().mean(), RuntimeError, "could not infer output dtype|floating point"),
        (lambda x: x.gather(0, torch.tensor([[9, 9]], device=DEV)), RuntimeError, "out of bounds"),
        (lambda x: x.index_select(0, torch.tensor([5], device=DEV)), (IndexError, RuntimeError), "out of range"),
        (lambda x: F.cross_entropy(x, torch.tensor([0, 9], device=DEV)), IndexError, "out of bounds"),
        (lambda x: torch.linalg.inv(torch.zeros(2, 2, device=DEV)), torch.linalg.LinAlgError, "singular"),
        (lambda x: torch.empty(2, device=DEV).random_(5, 3), RuntimeError, "from"),
        (lambda x: F.dropout(x, 1.5), ValueError, "between 0 and 1"),
        (lambda x: F.conv2d(x, x), RuntimeError, "input"),
    ],
)
def test_argument_errors_are_the_cpus_and_pass(call, error, text: str):
    x = torch.ones(2, 2, device=DEV)
    with pytest.raises(error, match=text):
        call(x)
    assert (x * 2).sum().item() == 8


def test_error_of_one_thread_or_op_is_not_inherited():
    x = torch.ones(2, device=DEV)
    for _ in range(3):
        with pytest.raises(IndexError):
            x[9]
        assert x.add(1).sum().item() == 4


# Custom ops, modes, subclasses


def test_custom_op_without_a_neuron_kernel_falls_back():
    with torch.library._scoped_library("trnsimtest", "DEF") as library:
        library.define("plus_one(Tensor x) -> Tensor")
        library.impl("plus_one", lambda x: x + 1, "CPU")
        y = torch.ops.trnsimtest.plus_one(torch.ones(3, device=DEV))
        assert y.tolist() == [2, 2, 2] and y.device.type == DEV


def test_python_custom_op():
    @torch.library.custom_op("trnsimtest2::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert twice(torch.ones(3, device=DEV)).device.type == DEV


def test_own_kernel_for_the_device():
    with torch.library._scoped_library("trnsimtest3", "DEF") as library:
        library.define("mine(Tensor x) -> Tensor")
        library.impl("mine", lambda x: x + 41, "PrivateUse1")
        assert torch.ops.trnsimtest3.mine(torch.ones(1, device=DEV)).item() == 42


def test_modes_and_subclasses_see_neuron_tensors():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        seen: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        F.linear(torch.ones(2, 2, device=DEV), torch.ones(2, 2, device=DEV))
    assert "aten.mm.default" in Log.seen or "aten.linear.default" in Log.seen


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(2, 3, device=DEV)
        assert (x @ x.t()).shape == (2, 2) and (x @ x.t()).device.type == DEV


def test_no_grad_inference_mode_and_checkpoint():
    x = torch.ones(2, device=DEV, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    y = torch.utils.checkpoint.checkpoint(lambda v: v.sin().cos(), x, use_reentrant=False)
    y.sum().backward()
    expected = torch.ones(2, requires_grad=True)
    expected.sin().cos().sum().backward()
    torch.testing.assert_close(x.grad.cpu(), expected.grad)


def test_gradcheck_in_float64():
    x = torch.randn(3, 3, dtype=torch.float64, device=DEV, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: (v @ v).tanh(), (x,))


def test_double_backward():
    x = torch.tensor([2.0], device=DEV, requires_grad=True)
    (g,) = torch.autograd.grad(x**3, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert h.item() == 12


def test_torchscript():
    @torch.jit.script
    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[index], x.relu()])

    assert f(torch.arange(3.0, device=DEV), torch.tensor([0, 2], device=DEV)).tolist() == [0, 2, 0, 1, 2]
