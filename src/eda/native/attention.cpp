// Chooses the instruction set at run time, splits the work over threads, and speaks C to the outside: no torch, no
// Python, and no OpenMP runtime of its own that could meet another one: it may be lent the team of the one that is there.

#include "attention.h"

#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "parallel.h"


std::atomic<Team>& lent_team() {
    static std::atomic<Team> team{nullptr};
    return team;
}

namespace {

enum Set { baseline_set, avx2_set, avx512_set };

// The best instruction set of this machine; EDA_ISA=baseline|avx2|avx512 asks for a lesser one.
Set instruction_set() {
    static const Set chosen = [] {
        Set best = baseline_set;
#ifdef EDA_X86
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = avx2_set;
        if (best == avx2_set && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl"))
            best = avx512_set;
#endif
        const char* wanted = std::getenv("EDA_ISA");
        if (wanted && !std::strcmp(wanted, "baseline")) return baseline_set;
        if (wanted && !std::strcmp(wanted, "avx2")) return std::min(best, avx2_set);
        return best;
    }();
    return chosen;
}

Kernels<float> chosen(float) {
#ifdef EDA_X86
    if (instruction_set() == avx512_set) return avx512_f32();
    if (instruction_set() == avx2_set) return avx2_f32();
#endif
    return baseline_f32();
}

Kernels<double> chosen(double) {
#ifdef EDA_X86
    if (instruction_set() != baseline_set) return avx2_f64();
#endif
    return baseline_f64();
}

template <typename T>
int forward(const Problem<T>& p, const double* stretch, int threads, T* out, T* attention) try {
    const Stretch<T> s(stretch, int(p.degree));
    const auto kernel = chosen(T()).forward[p.degree - 1];
    parallel_ranges(p.receivers, threads, [&](int64_t begin, int64_t end, int) { kernel(p, s, begin, end, out, attention); });
    return 0;
} catch (const std::exception&) {
    return 1;
}

// The senders from `first` to before `last` that some receivers look at.
struct Window {
    int64_t first, last;
};

template <typename T>
Window looked_at(const Problem<T>& p, int64_t begin, int64_t end) {
    Window seen{p.senders, 0};
    for (const int64_t* v = p.neighbors + begin * p.k; v < p.neighbors + end * p.k; ++v)
        if (*v >= 0) seen = {std::min(seen.first, *v), std::max(seen.last, *v + 1)};
    return {std::min(seen.first, seen.last), seen.last};
}

// A thread adds to gradients of its own, which are summed in order afterwards; to those of the features only where
// receivers of an earlier range look at the same senders: pieces lie one after the other, so mostly they do not.
template <typename T>
int backward(
    const Problem<T>& p, const double* stretch, int threads, const T* attention, const T* d_out, T* d_features,
    T* d_queries, T* d_key, T* d_value
) try {
    const Stretch<T> s(stretch, int(p.degree));
    const auto kernel = chosen(T()).backward[p.degree - 1];
    const int64_t row_size = (p.degree + 1) * (p.degree + 1) * p.C, table_size = p.knots * (2 * p.degree + 1) * p.C;
    const int parts = ranges_used(p.receivers, threads);
    std::vector<Window> windows(parts);
    parallel_ranges(p.receivers, threads, [&](int64_t begin, int64_t end, int part) { windows[part] = looked_at(p, begin, end); });
    int64_t reached = 0;  // by the windows so far
    for (Window& window : windows) {
        const int64_t last = window.last;
        if (window.first >= reached) window = {0, 0};  // nobody else adds there: no copy
        reached = std::max(reached, last);
    }
    std::vector<std::vector<T>> own(parts);
    parallel_ranges(p.receivers, threads, [&](int64_t begin, int64_t end, int part) {
        const Window window = windows[part];
        const bool shares = window.last > window.first;
        Problem<T> mine = p;
        mine.first_sender = window.first;
        const int64_t copied = (window.last - window.first) * row_size;
        if (part) own[part].assign(copied + 2 * table_size, T(0));
        T* k = part ? own[part].data() + copied : d_key;
        T* v = part ? k + table_size : d_value;
        kernel(mine, s, begin, end, attention, d_out, shares ? own[part].data() : d_features, d_queries, k, v);
    });
    for (int part = 1; part < parts; ++part) {
        auto gather = [&](T* into, const T* from, int64_t size) {
            parallel_ranges(size, threads, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) into[i] += from[i];
            });
        };
        const Window window = windows[part];
        const int64_t copied = (window.last - window.first) * row_size;
        gather(d_features + window.first * row_size, own[part].data(), copied);
        gather(d_key, own[part].data() + copied, table_size);
        gather(d_value, own[part].data() + copied + table_size, table_size);
    }
    return 0;
} catch (const std::exception&) {
    return 1;
}

// A layer of single points.
template <typename Layer>
int pointwise(void (*kernel)(const Layer&, int64_t, int64_t), const Layer& layer, int64_t points, int threads) try {
    parallel_ranges(points, threads, [&](int64_t begin, int64_t end, int) { kernel(layer, begin, end); });
    return 0;
} catch (const std::exception&) {
    return 1;
}

}  // namespace

#define EDA_EXPORT extern "C" __attribute__((visibility("default")))

// How many channels fill a register, for values of 4 or 8 bytes: the padded channels must be a multiple.
EDA_EXPORT int eda_lanes(int bytes) {
    return (bytes == 4 ? chosen(float()).vector_bytes : chosen(double()).vector_bytes) / bytes;
}

// Lends a team of threads, so that ours and those of another library do not wait for the same cores.
EDA_EXPORT int eda_lend_team(Team team) {
    static const int failed = pthread_atfork(nullptr, nullptr, [] { lent_team() = nullptr; });
    if (failed) return failed;
    lent_team() = team;
    return 0;
}

#define EDA_ATTENTION(T, suffix)                                                                                       \
    EDA_EXPORT int eda_attention_forward_##suffix(                                                                     \
        const T* features, const T* queries, const T* vectors, const int64_t* neighbors, const T* key_radial,          \
        const T* value_radial, const double* stretch, int64_t receivers, int64_t senders, int64_t k, int64_t degree,   \
        int64_t channels, int64_t padded, int64_t heads, int64_t knots, int threads, T* out, T* attention              \
    ) {                                                                                                                \
        const Problem<T> p{features, queries, vectors, neighbors, key_radial, value_radial, receivers, senders,        \
                           k, degree, channels, padded, heads, knots};                                                 \
        return forward<T>(p, stretch, threads, out, attention);                                                        \
    }                                                                                                                  \
    EDA_EXPORT int eda_attention_backward_##suffix(                                                                    \
        const T* features, const T* queries, const T* vectors, const int64_t* neighbors, const T* key_radial,          \
        const T* value_radial, const double* stretch, int64_t receivers, int64_t senders, int64_t k, int64_t degree,   \
        int64_t channels, int64_t padded, int64_t heads, int64_t knots, int threads, const T* attention,               \
        const T* d_out, T* d_features, T* d_queries, T* d_key, T* d_value                                              \
    ) {                                                                                                                \
        const Problem<T> p{features, queries, vectors, neighbors, key_radial, value_radial, receivers, senders,        \
                           k, degree, channels, padded, heads, knots};                                                 \
        return backward<T>(p, stretch, threads, attention, d_out, d_features, d_queries, d_key, d_value);              \
    }

EDA_ATTENTION(float, f32)
EDA_ATTENTION(double, f64)

#define EDA_POINTWISE(T, suffix)                                                                                       \
    EDA_EXPORT int eda_product_##suffix(                                                                               \
        const T* features, const T* weight, const T* bias, int64_t points, int64_t rows, int64_t first_degree,         \
        int64_t inputs, int64_t outputs, int threads, T* out                                                           \
    ) {                                                                                                                \
        const Product<T> layer{features, weight, bias, rows, first_degree, inputs, outputs, out};                      \
        return pointwise(chosen(T()).product, layer, points, threads);                                                 \
    }                                                                                                                  \
    EDA_EXPORT int eda_norm_##suffix(                                                                                  \
        const T* features, const T* gain, int64_t gain_stride, int64_t points, int64_t rows, int64_t channels,         \
        int threads, T* out                                                                                            \
    ) {                                                                                                                \
        const Norm<T> layer{features, gain, gain_stride, rows, channels, out, nullptr, nullptr, nullptr};              \
        return pointwise(chosen(T()).norm, layer, points, threads);                                                    \
    }                                                                                                                  \
    EDA_EXPORT int eda_norm_backward_##suffix(                                                                         \
        const T* features, const T* gain, const T* d_out, T* d_gain, int64_t gain_stride, int64_t points,              \
        int64_t rows, int64_t channels, int threads, T* d_features                                                     \
    ) {                                                                                                                \
        const Norm<T> layer{features, gain, gain_stride, rows, channels, nullptr, d_out, d_features, d_gain};          \
        return pointwise(chosen(T()).norm_backward, layer, points, threads);                                           \
    }                                                                                                                  \
    EDA_EXPORT int eda_projection_##suffix(                                                                            \
        const T* features, const T* toward, int64_t points, int64_t rows, int64_t degrees, int64_t channels,           \
        int threads, T* gates                                                                                          \
    ) {                                                                                                                \
        const Gate<T> layer{features, toward, rows, degrees, channels, gates, nullptr};                                \
        return pointwise(chosen(T()).projection, layer, points, threads);                                              \
    }                                                                                                                  \
    EDA_EXPORT int eda_gate_##suffix(                                                                                  \
        const T* features, T* gates, int64_t points, int64_t rows, int64_t degrees, int64_t channels, int threads,     \
        T* out                                                                                                         \
    ) {                                                                                                                \
        const Gate<T> layer{features, nullptr, rows, degrees, channels, gates, out};                                   \
        return pointwise(chosen(T()).gate, layer, points, threads);                                                    \
    }                                                                                                                  \
    EDA_EXPORT int eda_gate_backward_##suffix(                                                                         \
        const T* features, const T* toward, const T* projection, const T* gates, const T* density, const T* d_out,     \
        T* d_toward, int64_t points, int64_t rows, int64_t degrees, int64_t channels, int threads, T* d_features       \
    ) {                                                                                                                \
        const GateBackward<T> layer{features, toward, projection, gates, density, d_out, rows, degrees, channels,      \
                                    d_features, d_toward};                                                             \
        return pointwise(chosen(T()).gate_backward, layer, points, threads);                                           \
    }

EDA_POINTWISE(float, f32)
EDA_POINTWISE(double, f64)

EDA_EXPORT int eda_nearest_f32(
    const float* queries, const float* table, int64_t points, int64_t columns, int threads, int64_t* out
) {
    return pointwise(chosen(float()).nearest, Nearest<float>{queries, table, columns, out}, points, threads);
}
