#pragma once
// Registration of the Python side of Policy.cpp; the C++ side is declared in OpKey.h.

#include "OpKey.h"

#include <torch/csrc/utils/pybind.h>

namespace trnsim {

/// TensorSpec and OpKey classes, then resolve(key), account(key, fallback) -> (ns, engine, bytes, flops, compile,
/// compile ns), on_fallback(op, reason, site, module, bytes, cost ns) and refuse(same).
void set_callbacks(
    pybind11::object spec_type,
    pybind11::object key_type,
    pybind11::object resolve,
    pybind11::object account,
    pybind11::object on_fallback,
    pybind11::object refuse);

} // namespace trnsim
