// The kernels for x86 with AVX-512 (float only: double precision is for checks, where AVX2 is fast enough).

#include "kernels.h"

#ifdef EDA_X86

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,fma")
#endif

namespace {
#define EDA_VECTOR_BYTES 64
#include "kernels.inc"
}  // namespace

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

Kernels<float> avx512_f32() { return kernels<float>(); }

#endif
