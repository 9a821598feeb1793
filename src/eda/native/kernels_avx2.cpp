// The kernels for x86 with AVX2 and FMA.

#include "kernels.h"

#ifdef EDA_X86

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace {
#define EDA_VECTOR_BYTES 32
#include "kernels.inc"
}  // namespace

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

Kernels<float> avx2_f32() { return kernels<float>(); }
Kernels<double> avx2_f64() { return kernels<double>(); }

#endif
