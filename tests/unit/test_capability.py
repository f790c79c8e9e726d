"""The capability table: complete, deliberate, quick, and the same for every form of an op."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from eager_keys import Key, Tensor, key
from hypothesis import given
from hypothesis import strategies as st

from trnsim import eager
from trnsim.eager.capability import markdown
from trnsim.eager.keys import SCALAR_TYPES, dtype_name, split_op
from trnsim.eager.table import Table, load_table
from trnsim.errors import UnsupportedError

TABLE = load_table()


def reason(op: str, *inputs: str | Tensor, table: Table = TABLE, **static: object) -> str | None:
    """The reason for a fallback, or None if the op is native."""
    answer = table.resolve(key(op, *inputs, **static))
    assert (answer.status == "fallback") == (answer.reason is not None)
    return answer.reason


# -------------------------------------------------------------------------------------------------------- completeness
@pytest.fixture(scope="module")
def aten_ops() -> list[str]:
    torch = pytest.importorskip("torch")
    return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]


def test_no_aten_op_is_unclassified(aten_ops: list[str]) -> None:
    missing = sorted({split_op(name)[1] for name in aten_ops if not TABLE.classified(name)})
    assert not missing, f"add these to capability.toml, each in the group it belongs to: {missing}"


def test_every_row_names_an_op_that_exists(aten_ops: list[str]) -> None:
    parts = [split_op(name) for name in aten_ops]
    bases = {base for _, base, _ in parts} | {f"{base}.{overload}" for _, base, overload in parts}
    stale = [
        entry.op
        for entry in TABLE.entries()
        if entry.op not in bases
        and not (entry.op.endswith("*") and any(base.startswith(entry.op[:-1]) for base in bases))
    ]
    assert not stale, f"no such op in this PyTorch: {stale}"


def test_all_forms_of_an_op_resolve_alike(aten_ops: list[str]) -> None:
    """Only an overload that the table names itself may differ from its op."""
    named = {entry.op for entry in TABLE.entries()}
    for name in aten_ops:
        _, base, overload = split_op(name)
        if f"{base}.{overload}" in named:
            continue
        plain, here = TABLE.entry(f"aten::{base}"), TABLE.entry(name)
        assert plain is here, name


def test_scalar_type_codes_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for code, name in SCALAR_TYPES.items():
        dtype = getattr(torch, name, None)
        if dtype is not None:
            assert torch.ops.aten.empty.memory_format([0], dtype=code).dtype == dtype, (code, name)


def test_fallbacks_say_what_to_do_and_where_the_claim_comes_from() -> None:
    for entry in TABLE.entries():
        answer = entry.resolution
        assert answer.source in TABLE.sources
        if answer.status == "fallback":
            assert answer.note, entry.op
            assert answer.remedy, entry.op


def test_the_documentation_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "capability.md"
    assert page.read_text(encoding="utf-8") == markdown(), "run: python -m trnsim.eager.capability > docs/capability.md"


# ----------------------------------------------------------------------------------------------------------------- ops
@pytest.mark.parametrize(
    "op",
    [
        "aten::add.Tensor",
        "aten::add_.Tensor",
        "aten::add.out",
        "aten::mul.Scalar",
        "aten::ne.Tensor_out",
        "aten::relu_",
        "aten::mm",
        "aten::bmm.out",
        "aten::sum.dim_IntList",
        "aten::std.correction",
        "aten::native_layer_norm",
        "aten::_softmax",
        "aten::gelu_backward",
        "aten::_foreach_addcmul_.Scalar",
        "aten::_foreach_norm.Scalar",
        "aten::_fused_adamw_",
        "aten::_fused_sgd_.tensor_lr",
        "aten::nll_loss_forward",
        "aten::cat",
        "aten::where.self",
        "aten::max_pool2d_with_indices",
        "aten::_thnn_fused_lstm_cell",
        "aten::fill_.Scalar",
        "aten::view",
        "aten::cumsum",
        "aten::__and__.Tensor",
        "aten::__iand__.Tensor",
        "aten::linalg_vector_norm",
        "aten::scatter.src",
        "aten::scatter_.value",
    ],
)
def test_native(op: str) -> None:
    assert reason(op, "float32") is None


@pytest.mark.parametrize(
    "op",
    [
        "aten::normal_",
        "aten::uniform_",
        "aten::bernoulli_.float",
        "aten::randint.low_out",
        "aten::multinomial",
        "aten::randperm.generator_out",
        "aten::_fft_r2c",
        "aten::sort.values_stable",
        "aten::topk",
        "aten::argsort",
        "aten::_unique2",
        "aten::_linalg_svd.U",
        "aten::linalg_qr",
        "aten::upsample_nearest2d.out",
        "aten::_upsample_nearest_exact2d",
        "aten::upsample_bilinear2d_backward.grad_input",
        "aten::native_group_norm",
        "aten::slow_conv3d_forward",
        "aten::slow_conv_transpose2d",
        "aten::pixel_shuffle",
        "aten::roll",
        "aten::nonzero",
        "aten::masked_select",
        "aten::scatter_.reduce",
        "aten::scatter_.value_reduce",
        "aten::scatter.reduce_out",
        "aten::scatter_reduce_.two",
        "aten::repeat_interleave.Tensor",
    ],
)
def test_missing_op(op: str) -> None:
    assert reason(op, "float32") == "missing_op"


def test_an_aten_op_that_nobody_listed_falls_back() -> None:
    answer = TABLE.resolve(key("aten::brand_new_op", "float32"))
    assert (answer.status, answer.reason) == ("fallback", "missing_op")
    assert "capability" in answer.note


def test_custom_ops_fall_back_until_they_are_registered_native() -> None:
    table = Table()
    assert reason("mylib::scale.default", "float32", table=table) == "custom_op"
    assert "nki_op" in table.resolve(key("mylib::scale.default")).remedy
    table.register_native("mylib::scale")
    assert reason("mylib::scale.default", "float32", table=table) is None
    assert reason("mylib::scale", "float32", table=table) is None
    assert reason("c10d::allreduce_", "float32", table=table) is None


# -------------------------------------------------------------------------------------------------------------- dtypes
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "bool"])
def test_supported_dtypes(dtype: str) -> None:
    answer = TABLE.resolve(key("aten::add.Tensor", dtype, dtype))
    assert (answer.status, answer.wide) == ("native", False)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_64_bit_is_native_and_marked(dtype: str) -> None:
    answer = TABLE.resolve(key("aten::add.Tensor", dtype, dtype))
    assert (answer.status, answer.wide, answer.bounce) == ("native", True, False)
    assert "64-bit" in answer.note
    assert eager.wide_dtypes(key("aten::add.Tensor", dtype, "float32")) == (dtype,)


def test_a_cpu_scalar_is_not_64_bit_data_of_the_device() -> None:
    scalar = Tensor(dtype="float64", shape=(), device="cpu")
    answer = TABLE.resolve(key("aten::mul.Tensor", "float32", scalar))
    assert (answer.status, answer.wide) == ("native", False)
    assert eager.wide_dtypes(key("aten::mul.Tensor", "float32", scalar)) == ()


@pytest.mark.parametrize("dtype", ["int32", "torch.int32", 3])
def test_a_64_bit_cast_bounces_through_the_host(dtype: object) -> None:
    assert TABLE.resolve(key("aten::_to_copy", "int64", dtype=dtype)).bounce
    assert not TABLE.resolve(key("aten::_to_copy", "float32", dtype=dtype)).bounce


def test_a_copy_of_64_bit_data_without_a_cast_does_not_bounce() -> None:
    assert TABLE.resolve(key("aten::copy_", "float32", "float64")).bounce
    assert not TABLE.resolve(key("aten::copy_", "int64", "int64")).bounce
    assert not TABLE.resolve(key("aten::clone", "int64")).bounce
    assert TABLE.resolve(key("aten::_to_copy", "bfloat16", dtype="float64")).bounce


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8_only_casts_moves_and_scaled_products(dtype: str) -> None:
    assert reason("aten::_to_copy", dtype, dtype="float32") is None
    assert reason("aten::_to_copy", "bfloat16", dtype=dtype) is None
    assert reason("aten::view", dtype) is None
    assert reason("aten::_scaled_mm", dtype, dtype) is None
    assert reason("aten::add.Tensor", dtype, dtype) == "dtype"
    assert reason("aten::_to_copy", "float32", dtype=f"{dtype}uz") == "dtype"


def test_mx_formats_exist_on_trn3_only() -> None:
    assert reason("aten::_to_copy", "float32", dtype="float8_e8m0fnu") == "dtype"
    assert reason("aten::_to_copy", "float32", dtype="float8_e8m0fnu", table=load_table(chip="trn3")) is None


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "uint16", "uint32", "uint64"])
def test_other_dtypes_fall_back(dtype: str) -> None:
    answer = TABLE.resolve(key("aten::add.Tensor", dtype))
    assert answer.reason == "dtype"
    assert dtype in answer.note


def test_integer_matrix_products_fall_back() -> None:
    assert reason("aten::mm", "int32", "int32") == "dtype"
    assert reason("aten::bmm", "int64", "int64") == "dtype"


def test_complex_follows_the_decomposition_switch() -> None:
    off = load_table(complex_decompose=False)
    assert reason("aten::mul.Tensor", "complex64", "complex64") is None
    assert reason("aten::mul.Tensor", "complex64", "complex64", table=off) == "complex"
    assert reason("aten::view_as_real", "complex64", table=off) is None
    assert reason("aten::native_layer_norm", "complex64") == "complex"
    assert reason("aten::full", dtype="complex64", table=off) == "complex"
    assert "TORCH_NEURONX_COMPLEX_DECOMPOSE" in off.resolve(key("aten::mul.Tensor", "complex64")).remedy


def test_dtype_names_of_static_arguments() -> None:
    assert [dtype_name(value) for value in (4, "int64", "torch.int64")] == ["int64"] * 3


# --------------------------------------------------------------------------------------------------- layout and limits
@pytest.mark.parametrize("value", ["channels_last", "torch.channels_last", "torch.channels_last_3d", 2, 3])
def test_channels_last_falls_back_and_is_rejected_when_faithful(value: object) -> None:
    asked = key("aten::clone", "float32", memory_format=value)
    assert eager.resolve(asked).reason == "layout"
    with eager.behaviour("faithful"), pytest.raises(UnsupportedError, match=r"aten::clone.*contiguous or preserve"):
        eager.resolve(asked)
    assert eager.resolve(asked).reason == "layout"


@pytest.mark.parametrize("value", [None, 0, 1, "torch.preserve_format", "torch.contiguous_format"])
def test_contiguous_and_preserve_are_native(value: object) -> None:
    assert reason("aten::clone", "float32", memory_format=value) is None


@pytest.mark.parametrize("op", ["aten::convolution", "aten::convolution_overrideable", "aten::convolution_backward"])
def test_convolution_limits(op: str) -> None:
    flat, solid = Tensor(shape=(1, 3, 8, 8)), Tensor(shape=(1, 3, 8, 8, 8))
    assert reason(op, flat, flat, transposed=False) is None
    assert reason(op, flat, flat, transposed=True) == "limits"
    assert reason(op, solid, solid, transposed=False) == "limits"


def test_boolean_masks_fall_back() -> None:
    assert reason("aten::index.Tensor", "float32", "int64") is None
    assert reason("aten::index.Tensor", "float32", "bool") == "limits"
    assert reason("aten::index.Tensor", "bool", "int64") is None
    assert reason("aten::index.Tensor_out", "bool", "int64", "bool") is None
    assert reason("aten::index_put_", "float32", "bool", "float32") == "limits"
    assert reason("aten::index_put_", "bool", "int32", "bool") is None
    assert reason("aten::_index_put_impl_", "float32", "bool", "float32") == "limits"


def test_isin_compares_with_few_elements_and_sorts_for_many() -> None:
    ids = Tensor(dtype="int32", shape=(1, 16))
    assert reason("aten::isin.Tensor_Tensor", ids, Tensor(dtype="int32", shape=(2,))) is None
    assert reason("aten::isin.Tensor_Tensor_out", ids, Tensor(dtype="int32", shape=(1000,))) == "limits"


def test_attention_off_the_flash_path_is_native_with_advice() -> None:
    op = "aten::_scaled_dot_product_fused_attention_overrideable"
    fast, slow = Tensor(shape=(1, 8, 1024, 128)), Tensor(shape=(1, 8, 1000, 128))
    assert "flash" not in TABLE.resolve(key(op, fast, fast, fast, dropout_p=0.0)).note
    for asked in (
        key(op, slow, slow, slow, dropout_p=0.0),
        key(op, fast, fast, fast, dropout_p=0.1),
        key(op, fast, fast, fast, Tensor(dtype="bool")),
        key(op, *(Tensor(shape=(1, 8, 512, 256)),) * 3),
    ):
        answer = TABLE.resolve(asked)
        assert answer.status == "native"
        assert "flash" in answer.note
        assert "512" in answer.remedy


def test_strided_assignment_is_native_with_advice() -> None:
    assert "strided" in TABLE.resolve(key("aten::copy_", Tensor(contiguous=False), Tensor())).note
    assert TABLE.resolve(key("aten::copy_", Tensor(), Tensor())).note.find("strided") < 0


# ---------------------------------------------------------------------------------------------------------- properties
DTYPES = ["float32", "float64", "int64", "bool", "complex64", "qint8", "float8_e5m2", "uint16", "made_up"]
TENSORS = st.builds(
    Tensor,
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(0, 9), max_size=6).map(tuple),
    contiguous=st.booleans(),
    device=st.sampled_from(["neuron", "cpu"]),
)
OPS = st.one_of(
    st.sampled_from([f"aten::{entry.op.rstrip('*')}" for entry in TABLE.entries()]), st.text(min_size=1, max_size=20)
)


@given(op=OPS, inputs=st.lists(TENSORS, max_size=5).map(tuple), dtype=st.sampled_from([*DTYPES, None, 4, 99]))
def test_any_key_gets_a_complete_answer(op: str, inputs: tuple[Tensor, ...], dtype: object) -> None:
    answer = TABLE.resolve(Key(op=op, inputs=inputs, static=(("dtype", dtype),)))
    assert (answer.status == "native") == (answer.reason is None)
    assert answer.status == "native" or (answer.note and answer.remedy)


def test_resolving_takes_microseconds() -> None:
    """The promise is 10 us; four times that is allowed to a busy machine."""
    asked = key("aten::convolution", Tensor(shape=(1, 3, 8, 8)), Tensor(shape=(3, 3, 3, 3)), stride=(1, 1), groups=1)
    TABLE.resolve(asked)
    best = min(_seconds(asked, 200) for _ in range(10)) / 200
    assert best < 40e-6, f"{best * 1e6:.1f} us"


def _seconds(asked: Key, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        TABLE.resolve(asked)
    return time.perf_counter() - start


def test_recording_a_profiler_range_is_no_fallback() -> None:
    assert reason("profiler::_record_function_enter_new") is None


def test_a_transfer_between_host_and_device_does_not_bounce() -> None:
    host = Tensor(dtype="int64", device="cpu")
    assert not TABLE.resolve(key("aten::copy_", "int32", host)).bounce
    assert not TABLE.resolve(key("aten::_to_copy", host, dtype="int32")).bounce
