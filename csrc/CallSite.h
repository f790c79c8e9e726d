#pragma once
// Where in the user's program an event comes from: the innermost Python frame that is not PyTorch's or ours, or the
// autograd node when a backward thread has no Python frame. Sites are interned: an id is cheap to store and compare.

#include <cstdint>
#include <string>
#include <vector>

namespace trnsim {

using SiteId = uint32_t;
inline constexpr SiteId kNoSite = 0;

struct Site {
  std::string file; // absolute path, or the autograd node's name
  int line = 0;     // 0 when there is no Python frame
};

/// Directories whose frames are skipped (PyTorch's, ours). Set once at import.
void set_skipped_prefixes(std::vector<std::string> prefixes);

/// Takes the GIL; never call it while holding a lock of the core.
SiteId current_site();
/// A copy: the table may grow meanwhile.
Site site_of(SiteId id);
std::string site_text(SiteId id);

/// Module path ("encoder.layers.0.attn") of the running thread, set by hooks that `trnsim check` installs.
using ModuleId = uint32_t;
ModuleId current_module() noexcept;
ModuleId exchange_module(ModuleId id) noexcept;
ModuleId intern_module(const std::string& path);
std::string module_text(ModuleId id);

} // namespace trnsim
