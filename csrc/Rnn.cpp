// The fused LSTM and GRU cells that PyTorch calls on a device. They have no CPU kernel upstream: here is one, so that
// the boxed kernel runs them. Gate order is PyTorch's: LSTM i, f, g, o; GRU r, z, n.

#include <ATen/Functions.h>
#include <torch/library.h>

namespace trnsim {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

/// -> hidden, cell, activated gates [batch, 4 * hidden] kept for the backward.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cell,
    const OptionalTensor& input_bias,
    const OptionalTensor& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor in = gates[0].sigmoid();
  const Tensor forget = gates[1].sigmoid();
  const Tensor candidate = gates[2].tanh();
  const Tensor out = gates[3].sigmoid();
  Tensor next_cell = forget * cell + in * candidate;
  Tensor next_hidden = out * next_cell.tanh();
  return {std::move(next_hidden), std::move(next_cell), at::cat({in, forget, candidate, out}, 1)};
}

/// -> gradients of the gates [batch, 4 * hidden], of the old cell, of the bias.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const OptionalTensor& grad_hidden,
    const OptionalTensor& grad_cell,
    const Tensor& cell,
    const Tensor& next_cell,
    const Tensor& workspace,
    bool has_bias) {
  const bool from_hidden = grad_hidden.has_value() && grad_hidden->defined();
  const bool from_cell = grad_cell.has_value() && grad_cell->defined();
  if (!from_hidden && !from_cell) {
    return {};
  }
  const auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &candidate = gates[2], &out = gates[3];
  const Tensor squashed = next_cell.tanh();
  const Tensor dh = from_hidden ? *grad_hidden : at::zeros_like(next_cell);
  Tensor dc = dh * out * (1 - squashed * squashed);
  if (from_cell) {
    dc = dc + *grad_cell;
  }
  Tensor grad_gates = at::cat(
      {dc * candidate * in * (1 - in),
       dc * cell * forget * (1 - forget),
       dc * in * (1 - candidate * candidate),
       dh * squashed * out * (1 - out)},
      1);
  Tensor grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {std::move(grad_gates), dc * forget, std::move(grad_bias)};
}

/// -> hidden, workspace [batch, 5 * hidden]: r, z, n, old hidden, hidden part of n.
std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hidden,
    const OptionalTensor& input_bias,
    const OptionalTensor& hidden_bias) {
  const auto in = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto recurrent = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (in[0] + recurrent[0]).sigmoid();
  const Tensor update = (in[1] + recurrent[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * recurrent[2]).tanh();
  Tensor next = fresh + update * (hidden - fresh);
  return {std::move(next), at::cat({reset, update, fresh, hidden, recurrent[2]}, 1)};
}

/// -> gradients of the input gates, hidden gates, old hidden, input bias, hidden bias.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad, const Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hidden = saved[3], &recurrent = saved[4];
  const Tensor d_update = grad * (hidden - fresh) * (1 - update) * update;
  const Tensor d_fresh = grad * (1 - update) * (1 - fresh * fresh);
  const Tensor d_reset = d_fresh * recurrent * (1 - reset) * reset;
  Tensor grad_in = at::cat({d_reset, d_update, d_fresh}, 1);
  Tensor grad_recurrent = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  Tensor in_bias = has_bias ? grad_in.sum(0) : Tensor();
  Tensor recurrent_bias = has_bias ? grad_recurrent.sum(0) : Tensor();
  return {std::move(grad_in), std::move(grad_recurrent), grad * update, std::move(in_bias), std::move(recurrent_bias)};
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

} // namespace
} // namespace trnsim
