// The kernels for any machine: 16-byte vectors, which every 64-bit processor has (SSE2, NEON).

#include "kernels.h"

namespace {
#define EDA_VECTOR_BYTES 16
#include "kernels.inc"
}  // namespace

Kernels<float> baseline_f32() { return kernels<float>(); }
Kernels<double> baseline_f64() { return kernels<double>(); }
