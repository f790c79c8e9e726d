#include <Python.h>

#include "CallSite.h"

#include <torch/csrc/autograd/function.h>

#include <map>
#include <mutex>
#include <unordered_map>

namespace trnsim {
namespace {

/// Strings (or file:line pairs) to small ids, stable for the life of the process.
struct Interner {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, uint32_t> ids;
  std::vector<Site> sites{Site{}};

  uint32_t intern(const std::string& text, int line) {
    std::lock_guard<std::mutex> lock(mutex);
    auto [it, fresh] = ids.try_emplace({text, line}, static_cast<uint32_t>(sites.size()));
    if (fresh) {
      sites.push_back(Site{text, line});
    }
    return it->second;
  }

  Site get(uint32_t id) {
    std::lock_guard<std::mutex> lock(mutex);
    return id < sites.size() ? sites[id] : Site{};
  }
};

Interner& sites() {
  static auto* interner = new Interner; // leaked: allocator frees may outlive static destructors
  return *interner;
}

Interner& modules() {
  static auto* interner = new Interner;
  return *interner;
}

std::vector<std::string>& skipped_prefixes() {
  static auto* prefixes = new std::vector<std::string>;
  return *prefixes;
}

thread_local ModuleId t_module = 0;

bool is_skipped(const char* file) {
  for (const auto& prefix : skipped_prefixes()) {
    if (std::string_view(file).starts_with(prefix)) {
      return true;
    }
  }
  return file[0] == '<'; // <frozen runpy>, <string>
}

/// File and line of the innermost user frame; GIL held.
bool innermost_user_frame(std::string& file, int& line) {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* name = PyUnicode_AsUTF8(code->co_filename);
    const bool found = name != nullptr && !is_skipped(name);
    if (found) {
      file = name;
      line = PyFrame_GetLineNumber(frame);
    }
    Py_DECREF(code);
    PyFrameObject* back = found ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    if (found) {
      return true;
    }
    frame = back;
  }
  return false;
}

} // namespace

void set_skipped_prefixes(std::vector<std::string> prefixes) {
  skipped_prefixes() = std::move(prefixes);
}

SiteId current_site() {
  std::string file;
  int line = 0;
  if (Py_IsInitialized() != 0) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace); // a pending exception must survive the walk
    innermost_user_frame(file, line);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
  }
  if (file.empty()) {
    if (const auto node = torch::autograd::get_current_node()) {
      file = node->name() + " (backward)";
    }
  }
  return file.empty() ? kNoSite : sites().intern(file, line);
}

Site site_of(SiteId id) {
  return sites().get(id);
}

std::string site_text(SiteId id) {
  const Site site = site_of(id);
  return site.line > 0 ? site.file + ":" + std::to_string(site.line) : site.file;
}

ModuleId current_module() noexcept {
  return t_module;
}

ModuleId exchange_module(ModuleId id) noexcept {
  const auto previous = t_module;
  t_module = id;
  return previous;
}

ModuleId intern_module(const std::string& path) {
  return path.empty() ? 0 : modules().intern(path, 0);
}

std::string module_text(ModuleId id) {
  return modules().get(id).file;
}

} // namespace trnsim
