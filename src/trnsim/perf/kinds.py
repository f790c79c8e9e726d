"""Which cost function an op goes to, by base name (`aten::add_.Tensor` -> `add`). One table; an op is one entry."""

from __future__ import annotations

from collections.abc import Callable

from trnsim.perf import attention as attn
from trnsim.perf import matmul as mm
from trnsim.perf import movement as mv
from trnsim.perf import pointwise as pw
from trnsim.perf import reduction as rd
from trnsim.perf.machine import Machine, Work
from trnsim.perf.opkey import OpKey

__all__ = ["FREE", "HANDLERS", "KINDS", "CostFunction", "base_name", "handler"]

CostFunction = Callable[[OpKey, str, Machine], Work]

# Views, metadata and allocation: host time only.
_FREE = """
    _conj _fw_primal _make_dual _neg_view _nested_get_values _reshape_alias _unsafe_view adjoint alias as_strided
    broadcast_tensors broadcast_to chunk conj data detach diagonal dsplit empty empty_like empty_strided expand expand_as
    flatten hsplit imag lift lift_fresh linalg_diagonal mH mT matrix_H movedim moveaxis narrow new_empty new_empty_strided
    numpy_T permute real record_stream resize resize_as select set slice split split_with_sizes squeeze swapaxes swapdims
    t tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze view
    view_as view_as_complex view_as_real vsplit _lazy_clone _efficientzerotensor _local_scalar_dense is_same_size
    is_set_to is_pinned _has_compatible_shallow_copy_type result_type size stride numel requires_grad retain_grad
    _assert_tensor_metadata _debug_has_internal_overlap _has_same_storage_numel _is_zerotensor _new_zeros_with_same_feature_meta
    _pin_memory _print _resize_output _shape_as_tensor _unpack_dual _version can_cast dense_dim dim empty_permuted get_device
    is_coalesced is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_leaf is_neg is_signed
    output_nr pin_memory promote_types retains_grad set_data sparse_dim storage_offset sym_constrain_range
    sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride _propagate_xla_data
    positive reshape reshape_as ravel slice_inverse item _reshape_from_tensor _make_dep_token _functional_assert_scalar
    _functional_sym_constrain_range _functional_sym_constrain_range_for_size _assert_scalar _nnpack_available
    _fused_sdp_choice _use_cudnn_rnn_flatten_weight cudnn_is_acceptable is_vulkan_available from_file
"""
FREE: frozenset[str] = frozenset(_FREE.split())

_ELEMENTWISE = """
    abs absolute add addcdiv addcmul sub rsub mul div divide true_divide floor_divide remainder fmod neg negative sign sgn
    reciprocal square relu leaky_relu leaky_relu_backward threshold threshold_backward hardtanh hardtanh_backward clamp
    clamp_min clamp_max maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift where masked_fill isnan isinf
    isfinite nan_to_num ceil floor round trunc frac lerp sigmoid_backward tanh_backward hardswish_backward
    hardsigmoid_backward tril triu mse_loss mse_loss_backward l1_loss smooth_l1_loss smooth_l1_loss_backward huber_loss
    huber_loss_backward binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits nll_loss
    nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward copysign heaviside signbit hypot
    native_dropout_backward rrelu_with_noise prelu _prelu_kernel _prelu_kernel_backward masked_scale isposinf isneginf
    glu_backward _resolve_conj resolve_conj resolve_neg _conj_physical conj_physical dist polar complex
    amp_update_scale _amp_update_scale
    __and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__ hardshrink
    hardshrink_backward softshrink softshrink_backward special_round special_entr nextafter fix ldexp isreal linalg_cross
    rrelu_with_noise_backward _masked_scale soft_margin_loss soft_margin_loss_backward _add_relu isin
"""
_SUM = """
    _is_all_true _is_any_true _assert_async _functional_assert_async sum mean prod any
    all nansum nanmean count_nonzero trace cumulative_trapezoid bincount equal is_nonzero
"""
_COPY = """
    clone contiguous copy _to_copy to _copy_from _copy_from_and_resize constant_pad_nd pad reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d roll flip fliplr flipud rot90 repeat repeat_interleave tile select_backward
    slice_backward unfold_backward diagonal_backward select_scatter slice_scatter diagonal_scatter as_strided_scatter
    pixel_shuffle pixel_unshuffle channel_shuffle im2col col2im view_copy permute_copy expand_copy reshape_copy
    upsample_nearest1d upsample_nearest2d _cast_Float _cast_Half type_as
    diag_embed block_diag fill_diagonal _pad_circular _pad_enum reflection_pad3d replication_pad3d to_dense
    _to_dense affine_grid_generator masked_select_backward
"""
_FILL = """
    zero zeros zeros_like ones ones_like full full_like fill new_zeros new_ones new_full arange linspace logspace eye
    scalar_tensor
"""
_RANDOM = """
    rand rand_like randn randn_like randint randint_like randperm normal uniform bernoulli exponential geometric log_normal
    cauchy random native_dropout dropout _fused_dropout multinomial
"""
_POOL = """
    max_pool2d_with_indices max_pool2d max_pool1d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool2d _adaptive_avg_pool2d
    adaptive_max_pool2d max_pool3d_with_indices max_pool2d_with_indices_backward avg_pool2d_backward
    _adaptive_avg_pool2d_backward adaptive_max_pool2d_backward adaptive_avg_pool1d _adaptive_avg_pool3d
"""
_MATMUL = """
    mm addmm bmm baddbmm addbmm matmul linear mv addmv dot vdot inner addr outer ger _scaled_mm _addmm_activation _int_mm
    sspaddmm chain_matmul _grouped_mm _scaled_grouped_mm _scaled_mm_v2 linalg_vecdot linalg_matmul
"""
_CONV = """
    convolution convolution_overrideable _convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d mkldnn_convolution _slow_conv2d_forward _conv_depthwise2d thnn_conv2d
    slow_conv_dilated2d
"""
_SDPA = """
    scaled_dot_product_attention _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention _flash_attention_forward
    _scaled_dot_product_attention_math
"""
_SDPA_BACKWARD = """
    _scaled_dot_product_fused_attention_overrideable_backward _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_efficient_attention_backward
"""


KINDS: tuple[tuple[str, CostFunction], ...] = (
    (_ELEMENTWISE, pw.elementwise),
    (" ".join(pw.SCALAR_CYCLES), pw.transcendental),
    (_SUM, rd.reduce_sum),
    (" ".join(rd.ROW_CYCLES), rd.reduce_rows),
    (_POOL, rd.pooling),
    (_COPY, mv.copy),
    ("cat concat concatenate stack hstack vstack _stack _chunk_cat", mv.concatenate),
    ("index_select embedding index _unsafe_index", mv.row_gather),
    ("gather take take_along_dim", mv.element_gather),
    ("scatter scatter_add scatter_reduce masked_scatter put", mv.scatter),
    ("index_copy index_put _index_put_impl _unsafe_index_put index_fill", mv.row_scatter),
    ("index_add embedding_dense_backward embedding_backward index_reduce", mv.accumulate),
    (_FILL, pw.fill),
    (_RANDOM, pw.random),
    (_MATMUL, mm.matmul),
    (_CONV, mm.convolution),
    ("convolution_backward convolution_backward_overrideable", mm.convolution_backward),
    (_SDPA, attn.attention),
    (_SDPA_BACKWARD, attn.attention_backward),
)
HANDLERS: dict[str, CostFunction] = {name: function for names, function in KINDS for name in names.split()}


def base_name(op: str) -> str:
    """Return the op without namespace, overload and in-place mark: aten::add_.Tensor -> add."""
    name = op.rpartition("::")[2].partition(".")[0]
    if name.endswith("_") and not name.startswith("__"):
        return name[:-1]
    return name


def handler(base: str) -> CostFunction:
    """Return the cost function of an op."""
    found = HANDLERS.get(base)
    if found is not None:
        return found
    if base.startswith(("_foreach_", "_fused_", "_amp_foreach_")):
        return pw.multi_tensor
    if base.endswith("_copy"):  # view_copy, permute_copy…: views made real
        return mv.copy
    return pw.unknown
