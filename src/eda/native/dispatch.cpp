// The C interface of the compiled module: picks the instruction set at run time and splits the work over threads.
//
// How a call travels: eda/native/__init__.py loads the module with ctypes. Each exported function below fills a struct
// of kernels.h with its arguments. `kernels_for` returns the table of functions of the best instruction set that this
// processor has (asked once). `parallel_ranges` calls the kernel on contiguous ranges, one per thread. The result is 0,
// 1 when memory ran out, or 2 when sizes or neighbours do not fit: then nothing outside of the arguments was touched.
//
// For tests and comparisons, EDA_ISA=baseline or EDA_ISA=avx2 in the environment asks for a lesser instruction set.
//
// The module uses neither torch nor Python, so one build serves every version of both. It has no OpenMP runtime of its
// own, which could clash with the one of torch; instead that one can lend its threads (eda_lend_team).

#include "kernels.h"

#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "parallel.h"

std::atomic<Team>& lent_team() {
    static std::atomic<Team> team{nullptr};
    return team;
}

namespace {

enum Result { done, out_of_memory, misfit };

// Thrown where arguments do not fit: going on would read or write outside of their memory.
struct Misfit : std::exception {};

void require(bool fits) {
    if (!fits) throw Misfit();
}

template <typename Call>
Result result_of(const Call& call) try {
    call();
    return done;
} catch (const Misfit&) {
    return misfit;
} catch (const std::exception&) {
    return out_of_memory;
}

enum Set { baseline_set, avx2_set, avx512_set };

// The best instruction set of this processor, or the lesser one that EDA_ISA asks for.
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

Kernels<float> kernels_for(float) {
#ifdef EDA_X86
    if (instruction_set() == avx512_set) return avx512_f32();
    if (instruction_set() == avx2_set) return avx2_f32();
#endif
    return baseline_f32();
}

Kernels<double> kernels_for(double) {
#ifdef EDA_X86
    if (instruction_set() != baseline_set) return avx2_f64();
#endif
    return baseline_f64();
}

constexpr int64_t most = std::numeric_limits<int32_t>::max();  // of what the kernels count with an int

template <typename T>
bool fills_registers(int64_t channels) {
    return channels >= 0 && channels % (kernels_for(T()).vector_bytes / int(sizeof(T))) == 0;
}

bool is_square(int64_t rows) {
    if (rows < 1 || rows > most) return false;
    const auto root = int64_t(std::sqrt(double(rows)));
    return root * root == rows;
}

template <typename T>
void check(const Attention<T>& p) {
    require(1 <= p.degree && p.degree <= max_degree);
    require(p.receivers >= 0 && p.senders >= 0 && 0 <= p.k && p.k <= most && 4 <= p.knots && p.knots <= most);
    require(1 <= p.heads && p.heads <= p.channels && p.channels % p.heads == 0);
    require(p.channels <= p.C && fills_registers<T>(p.C));
}

// The neighbours of a range of receivers must be senders, or -1 for none.
template <typename T>
void check_neighbors(const Attention<T>& p, int64_t begin, int64_t end) {
    bool outside = false;
    for (int64_t i = begin * p.k; i < end * p.k; ++i) outside |= uint64_t(p.neighbors[i]) + 1 > uint64_t(p.senders);
    require(!outside);
}

template <typename T>
void forward(const Attention<T>& p, const double* stretch, int threads, T* out, T* attention) {
    check(p);
    const Stretch<T> s(stretch, int(p.degree));
    const auto kernel = kernels_for(T()).forward[p.degree - 1];
    parallel_ranges(p.receivers, threads, [&](int64_t begin, int64_t end, int) {
        check_neighbors(p, begin, end);
        kernel(p, s, begin, end, out, attention);
    });
}

// The senders first .. last - 1.
struct Window {
    int64_t first, last;
};

// The smallest window with all neighbours of a range of receivers.
template <typename T>
Window sender_window(const Attention<T>& p, int64_t begin, int64_t end) {
    Window seen{p.senders, 0};
    for (const int64_t* v = p.neighbors + begin * p.k; v < p.neighbors + end * p.k; ++v)
        if (*v >= 0) seen = {std::min(seen.first, *v), std::max(seen.last, *v + 1)};
    return {std::min(seen.first, seen.last), seen.last};
}

// Several receivers may add to the gradient of one sender or of the radial tables. Each range but the first therefore
// adds to copies of its own, which are summed in a fixed order afterwards. A copy of the senders' gradients is made
// only where an earlier range has neighbours in the same window. Pieces lie one after the other, so this is rare.
template <typename T>
void backward(
    const Attention<T>& p, const double* stretch, int threads, const T* attention, const T* d_out, T* d_features,
    T* d_queries, T* d_key, T* d_value
) {
    check(p);
    const Stretch<T> s(stretch, int(p.degree));
    const auto kernel = kernels_for(T()).backward[p.degree - 1];
    const int64_t row_size = (p.degree + 1) * (p.degree + 1) * p.C, table_size = p.knots * (2 * p.degree + 1) * p.C;
    const int parts = ranges_used(p.receivers, threads);
    std::vector<Window> windows(parts);
    parallel_ranges(p.receivers, threads, [&](int64_t begin, int64_t end, int part) {
        check_neighbors(p, begin, end);
        windows[part] = sender_window(p, begin, end);
    });
    int64_t reached = 0;  // the end of the windows so far
    for (Window& window : windows) {
        const int64_t last = window.last;
        if (window.first >= reached) window = {0, 0};  // no earlier range adds there: no copy
        reached = std::max(reached, last);
    }
    std::vector<std::vector<T>> own(parts);
    parallel_ranges(p.receivers, threads, [&](int64_t begin, int64_t end, int part) {
        const Window window = windows[part];
        const bool shares = window.last > window.first;
        Attention<T> mine = p;
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
}

template <typename T>
void check(const Product<T>& p) {
    require(is_square(p.rows) && 0 <= p.first_degree && p.first_degree <= p.rows && p.inputs >= 0);
    require(p.first_degree * p.first_degree <= p.rows && fills_registers<T>(p.outputs));
}

template <typename T>
void check(const Norm<T>& n) {
    require(is_square(n.rows) && fills_registers<T>(n.channels));
    require(n.gain_stride == 0 || n.gain_stride == n.channels);
}

template <typename T>
void check(const Gate<T>& g) {
    require(is_square(g.rows) && 1 <= g.degrees && g.degrees <= g.rows && g.degrees * g.degrees == g.rows);
    require(fills_registers<T>(g.channels));
}

template <typename T>
void check(const GateBackward<T>& g) {
    check(Gate<T>{g.features, g.toward, g.rows, g.degrees, g.channels, nullptr, nullptr});
}

template <typename T>
void check(const Nearest<T>& n) {
    require(1 <= n.columns && n.columns <= most && fills_registers<T>(n.columns));
}

// A layer that acts on each point alone.
template <typename Layer>
Result pointwise(void (*kernel)(const Layer&, int64_t, int64_t), const Layer& layer, int64_t points, int threads) {
    return result_of([&] {
        require(points >= 0);
        check(layer);
        parallel_ranges(points, threads, [&](int64_t begin, int64_t end, int) { kernel(layer, begin, end); });
    });
}

}  // namespace

#define EDA_EXPORT extern "C" __attribute__((visibility("default")))

// The number of values of 4 or 8 bytes in a register, 0 for other sizes. Padded channels must be a multiple of it.
EDA_EXPORT int eda_lanes(int bytes) {
    if (bytes == 4) return kernels_for(float()).vector_bytes / 4;
    return bytes == 8 ? kernels_for(double()).vector_bytes / 8 : 0;
}

// Sets the threads to use: those of another library, which would otherwise compete with ours for the same cores.
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
        const Attention<T> p{features, queries, vectors, neighbors, key_radial, value_radial, receivers,               \
                             senders,  k,       degree,  channels,  padded,     heads,        knots};                  \
        return result_of([&] { forward(p, stretch, threads, out, attention); });                                       \
    }                                                                                                                  \
    EDA_EXPORT int eda_attention_backward_##suffix(                                                                    \
        const T* features, const T* queries, const T* vectors, const int64_t* neighbors, const T* key_radial,          \
        const T* value_radial, const double* stretch, int64_t receivers, int64_t senders, int64_t k, int64_t degree,   \
        int64_t channels, int64_t padded, int64_t heads, int64_t knots, int threads, const T* attention,               \
        const T* d_out, T* d_features, T* d_queries, T* d_key, T* d_value                                              \
    ) {                                                                                                                \
        const Attention<T> p{features, queries, vectors, neighbors, key_radial, value_radial, receivers,               \
                             senders,  k,       degree,  channels,  padded,     heads,        knots};                  \
        return result_of([&] {                                                                                         \
            backward(p, stretch, threads, attention, d_out, d_features, d_queries, d_key, d_value);                    \
        });                                                                                                            \
    }

EDA_ATTENTION(float, f32)
EDA_ATTENTION(double, f64)

#define EDA_POINTWISE(T, suffix)                                                                                       \
    EDA_EXPORT int eda_product_##suffix(                                                                               \
        const T* features, const T* weight, const T* bias, int64_t points, int64_t rows, int64_t first_degree,         \
        int64_t inputs, int64_t outputs, int threads, T* out                                                           \
    ) {                                                                                                                \
        const Product<T> layer{features, weight, bias, rows, first_degree, inputs, outputs, out};                      \
        return pointwise(kernels_for(T()).product, layer, points, threads);                                            \
    }                                                                                                                  \
    EDA_EXPORT int eda_norm_##suffix(                                                                                  \
        const T* features, const T* gain, int64_t gain_stride, int64_t points, int64_t rows, int64_t channels,         \
        int threads, T* out                                                                                            \
    ) {                                                                                                                \
        const Norm<T> layer{features, gain, gain_stride, rows, channels, out, nullptr, nullptr, nullptr};              \
        return pointwise(kernels_for(T()).norm, layer, points, threads);                                               \
    }                                                                                                                  \
    EDA_EXPORT int eda_norm_backward_##suffix(                                                                         \
        const T* features, const T* gain, const T* d_out, T* d_gain, int64_t gain_stride, int64_t points,              \
        int64_t rows, int64_t channels, int threads, T* d_features                                                     \
    ) {                                                                                                                \
        const Norm<T> layer{features, gain, gain_stride, rows, channels, nullptr, d_out, d_features, d_gain};          \
        return pointwise(kernels_for(T()).norm_backward, layer, points, threads);                                      \
    }                                                                                                                  \
    EDA_EXPORT int eda_projection_##suffix(                                                                            \
        const T* features, const T* toward, int64_t points, int64_t rows, int64_t degrees, int64_t channels,           \
        int threads, T* gates                                                                                          \
    ) {                                                                                                                \
        const Gate<T> layer{features, toward, rows, degrees, channels, gates, nullptr};                                \
        return pointwise(kernels_for(T()).projection, layer, points, threads);                                         \
    }                                                                                                                  \
    EDA_EXPORT int eda_gate_##suffix(                                                                                  \
        const T* features, T* gates, int64_t points, int64_t rows, int64_t degrees, int64_t channels, int threads,     \
        T* out                                                                                                         \
    ) {                                                                                                                \
        const Gate<T> layer{features, nullptr, rows, degrees, channels, gates, out};                                   \
        return pointwise(kernels_for(T()).gate, layer, points, threads);                                               \
    }                                                                                                                  \
    EDA_EXPORT int eda_gate_backward_##suffix(                                                                         \
        const T* features, const T* toward, const T* projection, const T* gates, const T* density, const T* d_out,     \
        T* d_toward, int64_t points, int64_t rows, int64_t degrees, int64_t channels, int threads, T* d_features       \
    ) {                                                                                                                \
        const GateBackward<T> layer{features, toward,  projection, gates,      density, d_out,                         \
                                    rows,     degrees, channels,   d_features, d_toward};                              \
        return pointwise(kernels_for(T()).gate_backward, layer, points, threads);                                      \
    }

EDA_POINTWISE(float, f32)
EDA_POINTWISE(double, f64)

EDA_EXPORT int eda_nearest_f32(
    const float* queries, const float* table, int64_t points, int64_t columns, int threads, int64_t* out
) {
    return pointwise(kernels_for(float()).nearest, Nearest<float>{queries, table, columns, out}, points, threads);
}
