#pragma once
// Pinned host memory: page-aligned host pages that remember being pinned.

#include <c10/core/Allocator.h>

namespace trnsim {

c10::Allocator* pinned_allocator();
bool is_pinned(const void* pointer);

} // namespace trnsim
