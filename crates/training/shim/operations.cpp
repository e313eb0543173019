// Counts the operations that libtorch is asked for: what a GPU would launch kernels for.
//
// An operation that only hands its work to others is not counted, they are; nor is one that makes a view or memory
// without writing to it. A shared object inside the binary, as `gpu.cpp`, but it needs libtorch's CPU half alone.

#include <ATen/record_function.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

// What computes nothing by itself.
const std::set<std::string> idle = {
    "aten::view",         "aten::_unsafe_view",   "aten::_reshape_alias", "aten::reshape",      "aten::as_strided", "aten::as_strided_",
    "aten::slice",        "aten::narrow",         "aten::select",         "aten::transpose",    "aten::t",
    "aten::permute",      "aten::expand",         "aten::expand_as",      "aten::unsqueeze",    "aten::squeeze",
    "aten::squeeze_",     "aten::unsqueeze_",     "aten::detach",         "aten::detach_",      "aten::alias",
    "aten::chunk",        "aten::split",          "aten::split_with_sizes", "aten::unbind",     "aten::flatten",
    "aten::unflatten",    "aten::empty",          "aten::empty_like",     "aten::empty_strided", "aten::new_empty",
    "aten::new_empty_strided", "aten::resize_",   "aten::resize_as_",     "aten::set_",         "aten::to",
    "aten::contiguous",   "aten::lift_fresh",     "aten::result_type",    "aten::resolve_conj", "aten::resolve_neg",
    "aten::view_as",      "aten::movedim",        "aten::numpy_T",        "aten::broadcast_tensors",
    "aten::requires_grad_", "aten::mT", "aten::mH", "aten::matrix_H", "aten::unsafe_split",
    "aten::_nnpack_available",
};

// What computes by itself whatever else it asks for.
const std::set<std::string> working = {
    "aten::mkldnn_convolution",   "aten::convolution_backward",         "aten::convolution_overrideable",
    "aten::cudnn_convolution",    "aten::native_batch_norm",            "aten::native_batch_norm_backward",
    "aten::cudnn_batch_norm",     "aten::cudnn_batch_norm_backward",    "aten::avg_pool2d_backward",
    "aten::mm",                   "aten::bmm",                          "aten::cat",
};

std::mutex lock;
std::map<std::string, uint64_t> counts;
at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
// For each operation that is under way on this thread: whether one below it was counted.
thread_local std::vector<bool> under_way;

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction &) {
  under_way.push_back(false);
  return nullptr;
}

void ends(const at::RecordFunction &function, at::ObserverContext *) {
  if (under_way.empty()) {
    return;
  }
  bool is_counted = under_way.back();
  under_way.pop_back();
  const std::string name = function.name();
  // Names without this prefix are steps of the way back, which ask for operations.
  const bool is_operation = name.rfind("aten::", 0) == 0;
  if (is_operation && (working.count(name) != 0 || (!is_counted && idle.count(name) == 0))) {
    is_counted = true;
    std::lock_guard<std::mutex> guard(lock);
    counts[name] += 1;
  }
  if (is_counted && !under_way.empty()) {
    under_way.back() = true;
  }
}

}  // namespace

extern "C" {

// Begins to count, on all threads. One count at a time: the caller sees to that.
void sordino_operations_begin() {
  counts.clear();
  handle = at::addGlobalCallback(at::RecordFunctionCallback(begins, ends).scopes({at::RecordScope::FUNCTION}));
}

// Ends it. One line for each kind of operation, name and number, in memory that `sordino_operations_free` frees.
char *sordino_operations_end() {
  at::removeCallback(handle);
  std::lock_guard<std::mutex> guard(lock);
  std::string lines;
  for (const auto &[name, count] : counts) {
    lines += name + " " + std::to_string(count) + "\n";
  }
  return strdup(lines.c_str());
}

void sordino_operations_free(char *lines) { std::free(lines); }

}  // extern "C"
