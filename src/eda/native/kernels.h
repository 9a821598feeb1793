// What the compiled kernels are handed, and what each instruction set offers.
//
// The files of this folder:
//
//   kernels.h             this file: arguments of the kernels, and `Kernels`, the table of functions of one set
//   kernels.inc           all kernels as templates, from registers.inc, attention.inc, pointwise.inc and nearest.inc
//   kernels_baseline.cpp  kernels.inc for 16-byte registers (SSE2, NEON), float and double: every 64-bit processor
//   kernels_avx2.cpp      kernels.inc for 32-byte registers (AVX2, FMA), float and double: x86 only
//   kernels_avx512.cpp    kernels.inc for 64-byte registers (AVX-512 F, DQ, VL), float only: x86 only
//   dispatch.cpp          the C interface: picks a table of kernels at run time and splits the work over threads
//   parallel.h            the threads
//   farthest_points.cpp   farthest point sampling; compiled once, for any machine
//
// What the kernels compute is defined in Python, in the same names: eda/kernels/attention_reference.py,
// eda/kernels/pointwise_reference.py and eda/kernels/nearest.py. A kernel handles a range of points or receivers, so
// that ranges can run on different threads.
//
// Edge attention:
//
//   features (S, M, C)          F_v
//   queries  (U, M, L+1, C)     Q_u W_K^T, the source degree l' in the third place
//   out      (U, M, L+1, C)     sum_v alpha_v (R^l)^T P_ll' Z^l'
//
// It handles one receiver after the other, and of each one register of channels at a time. Nothing of the size of edges
// times channels is ever written to main memory. Receivers are split into contiguous ranges, so the same input and the
// same number of threads give the same bits.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

constexpr double coincident = 1e-5;  // COINCIDENT in eda/kernels/edges.py
constexpr int max_degree = 3;

// The inputs of edge attention.
template <typename T>
struct Attention {
    const T *features, *queries, *vectors;
    const int64_t* neighbors;  // (U, k), -1 where there is none
    const T *key_radial, *value_radial;
    int64_t receivers, senders, k, degree, channels, C, heads, knots;  // C: channels padded to whole registers
    int64_t first_sender = 0;  // the sender whose gradient is in row 0 of d_features
};

// The offset of D^l in the stacked Wigner matrices of degrees 1 .. L, and the size of the stack.
constexpr int block_offset(int l) { return l <= 1 ? 0 : block_offset(l - 1) + (2 * l - 1) * (2 * l - 1); }
constexpr int wigner_size(int L) { return block_offset(L + 1); }

// The isometries that raise D^l to D^{l+1} (eda/lie/wigner.py), stored without their zeros.
template <typename T>
struct Stretch {
    struct Entry {
        int row, axis;
        T value;
    };
    std::vector<std::vector<std::vector<Entry>>> rows;  // [l - 1][row of degree l + 1]

    Stretch(const double* dense, int L) {
        for (int l = 1; l < L; ++l) {
            std::vector<std::vector<Entry>> table(2 * l + 3);
            for (auto& row : table)
                for (int n = 0; n < 2 * l + 1; ++n)
                    for (int axis = 0; axis < 3; ++axis, ++dense)
                        if (*dense != 0) row.push_back({n, axis, T(*dense)});
            rows.push_back(std::move(table));
        }
    }
};

// A linear map of the channels per degree, for the degrees from `first_degree` on.
template <typename T>
struct Product {
    const T *features, *weight, *bias;  // (P, M, inputs); (degrees, inputs, outputs); (outputs), of degree 0, or null
    int64_t rows, first_degree, inputs, outputs;
    T* out;  // (P, M - first_degree^2, outputs)
};

constexpr double norm_floor = 1e-6;  // FLOOR in eda/kernels/pointwise_reference.py

// F / sigma times a gain.
template <typename T>
struct Norm {
    const T *features, *gain;  // (P, M, C); (P, C) with a stride, which may be zero
    int64_t gain_stride, rows, channels;
    T* out;  // (P, M, C)
    // For the gradients only:
    const T* d_out;          // (P, M, C)
    T *d_features, *d_gain;  // (P, M, C), (P, C)
};

constexpr double gate_floor = 1e-6;  // FLOOR in eda/kernels/pointwise_reference.py

// The activation, in two steps: the projections, then the product with the gates. In between, torch turns projections
// into gates by the normal distribution function.
template <typename T>
struct Gate {
    const T *features, *toward;  // (P, M, C); (P, M - 1, C)
    int64_t rows, degrees, channels;
    T *gates, *out;  // (P, degrees, C), written by the first step and read by the second; (P, M, C)
};

// The gradients of the activation.
template <typename T>
struct GateBackward {
    const T *features, *toward, *projection, *gates;  // as above; `projection` is what the first step wrote
    const T *density, *d_out;                         // (P, degrees, C) the normal density of the projection; (P, M, C)
    int64_t rows, degrees, channels;
    T *d_features, *d_toward;  // (P, M, C), (P, M - 1, C)
};

constexpr int nearest_axes = 7;  // AXES + 1 in eda/kernels/nearest.py

// For every query, the column of a table that gives the largest product with it; the first one of equals.
template <typename T>
struct Nearest {
    const T *queries, *table;  // (P, axes); (axes, columns), whole registers of columns
    int64_t columns;
    int64_t* out;  // (P)
};

// The functions of one instruction set. Those of attention are indexed by degree - 1.
template <typename T>
struct Kernels {
    using Forward = void (*)(const Attention<T>&, const Stretch<T>&, int64_t begin, int64_t end, T* out, T* attention);
    using Backward = void (*)(
        const Attention<T>&, const Stretch<T>&, int64_t begin, int64_t end, const T* attention, const T* d_out,
        T* d_features, T* d_queries, T* d_key, T* d_value
    );
    int vector_bytes;
    Forward forward[max_degree];
    Backward backward[max_degree];
    void (*product)(const Product<T>&, int64_t begin, int64_t end);
    void (*norm)(const Norm<T>&, int64_t begin, int64_t end);
    void (*projection)(const Gate<T>&, int64_t begin, int64_t end);
    void (*gate)(const Gate<T>&, int64_t begin, int64_t end);
    void (*norm_backward)(const Norm<T>&, int64_t begin, int64_t end);
    void (*gate_backward)(const GateBackward<T>&, int64_t begin, int64_t end);
    void (*nearest)(const Nearest<T>&, int64_t begin, int64_t end);
};

#if defined(__x86_64__) && (defined(__clang__) || defined(__GNUC__))
#define EDA_X86 1
#endif

Kernels<float> baseline_f32();
Kernels<double> baseline_f64();
#ifdef EDA_X86
Kernels<float> avx2_f32();
Kernels<double> avx2_f64();
Kernels<float> avx512_f32();
#endif
