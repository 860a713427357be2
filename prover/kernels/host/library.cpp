// The library's own entry points, and the choice among the variants of the hot files.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../abi.h"
#include "functions.hpp"

#define CZK_EXPORT extern "C" __attribute__((visibility("default")))

// A file that a variant does not compile leaves its functions null there: the next slower variant's serve.
#define CZK_DECLARE(variant, name, params) \
  extern "C" int32_t czk_##variant##_##name params __attribute__((weak, visibility("default")));
#define CZK_DECLARE_portable(name, params, args) CZK_DECLARE(portable, name, params)
#define CZK_DECLARE_bmi2(name, params, args) CZK_DECLARE(bmi2, name, params)
#define CZK_DECLARE_ifma(name, params, args) CZK_DECLARE(ifma, name, params)
CZK_FUNCTIONS(CZK_DECLARE_portable)
#if CZK_HAVE_bmi2
CZK_FUNCTIONS(CZK_DECLARE_bmi2)
#endif
#if CZK_HAVE_ifma
CZK_FUNCTIONS(CZK_DECLARE_ifma)
#endif

namespace czk {

namespace {
thread_local char error_text[256];
}

int32_t fail(int32_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));
int32_t fail(int32_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  return code;
}

}  // namespace czk

namespace {

struct Variant {
  const char* name;
  bool (*runs_here)();
#define CZK_FIELD(name, params, args) int32_t(*name) params;
  CZK_FUNCTIONS(CZK_FIELD)
#undef CZK_FIELD
};

bool always() { return true; }
#if CZK_HAVE_bmi2 || CZK_HAVE_ifma
bool has_bmi2() { return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"); }
#endif
#if CZK_HAVE_ifma
bool has_ifma() {
  return has_bmi2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512ifma");
}
#endif

// Slowest first.
#define CZK_ENTRY_portable(name, params, args) czk_portable_##name,
#define CZK_ENTRY_bmi2(name, params, args) czk_bmi2_##name,
#define CZK_ENTRY_ifma(name, params, args) czk_ifma_##name,
const Variant kVariants[] = {
    {"portable", always, CZK_FUNCTIONS(CZK_ENTRY_portable)},
#if CZK_HAVE_bmi2
    {"bmi2", has_bmi2, CZK_FUNCTIONS(CZK_ENTRY_bmi2)},
#endif
#if CZK_HAVE_ifma
    {"ifma", has_ifma, CZK_FUNCTIONS(CZK_ENTRY_ifma)},
#endif
};

// The best that runs here, or the lower one that CUZK_TOP_CPU names; an unknown name changes nothing.
const Variant* choose() {
  const char* wanted = std::getenv("CUZK_TOP_CPU");
  const Variant* best = &kVariants[0];
  for (const Variant& v : kVariants) {
    if (!v.runs_here()) continue;
    best = &v;
    if (wanted && !std::strcmp(wanted, v.name)) break;
  }
  return best;
}

std::atomic<const Variant*> active{choose()};

}  // namespace

#define CZK_FORWARD(name, params, args)                                                            \
  CZK_EXPORT int32_t czk_##name params {                                                           \
    for (const Variant* v = active.load(std::memory_order_relaxed); v >= kVariants; v--)           \
      if (v->name) return v->name args;                                                            \
    return czk::fail(CZK_INTERNAL, #name " is not built into the host library");                   \
  }
CZK_FUNCTIONS(CZK_FORWARD)

CZK_EXPORT int32_t czk_abi_version(void) { return CZK_ABI_VERSION; }
CZK_EXPORT const char* czk_source_digest(void) { return CZK_SOURCE_DIGEST; }
CZK_EXPORT const char* czk_last_error(void) { return czk::error_text; }
CZK_EXPORT const char* czk_cpu_variant(void) { return active.load()->name; }

CZK_EXPORT const char* czk_cpu_variants(void) {
  static const std::string names = [] {
    std::string all;
    for (const Variant& v : kVariants)
      if (v.runs_here()) all += (all.empty() ? "" : ",") + std::string(v.name);
    return all;
  }();
  return names.c_str();
}

CZK_EXPORT int32_t czk_select_variant(const char* name) {
  for (const Variant& v : kVariants)
    if (name && !std::strcmp(name, v.name) && v.runs_here()) {
      active.store(&v);
      return CZK_OK;
    }
  return czk::fail(CZK_INVALID, "this processor does not run the variant %s", name ? name : "(null)");
}
