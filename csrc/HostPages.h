#pragma once
// Address space for device segments. Pages are committed by the kernel when first touched, so a simulated 24 GiB
// device costs what the program really uses.

#include <cstddef>

namespace trnsim {

/// Segments begin at multiples of this, so that a pointer's segment is found by shifting.
inline constexpr size_t kSegmentAlignment = size_t{2} << 20;

/// nullptr when the host has no address space left.
char* reserve_pages(size_t bytes) noexcept;
void release_pages(char* base, size_t bytes) noexcept;
/// Gives the physical pages back and keeps the addresses; they read as zeros afterwards.
void decommit_pages(char* base, size_t bytes) noexcept;

/// What lies at an address: a table from 2 MiB chunks to the owner given at registration. Reading takes no lock.
void set_owner(char* base, size_t bytes, void* owner);
void* owner_of(const void* pointer) noexcept;

} // namespace trnsim
