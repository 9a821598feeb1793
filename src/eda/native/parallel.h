// Contiguous ranges on threads of their own. No pool: nothing outlives the call, so a fork is harmless.

#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

inline int ranges_used(int64_t count, int threads) {
    return int(std::max<int64_t>(1, std::min<int64_t>(threads, count)));
}

// body(begin, end, part) for every part; the split depends on `count` and `threads` alone.
template <typename Body>
void parallel_ranges(int64_t count, int threads, const Body& body) {
    const int parts = ranges_used(count, threads);
    std::vector<std::exception_ptr> failures(parts);
    auto run = [&](int part) {
        try {
            body(count * part / parts, count * (part + 1) / parts, part);
        } catch (...) {
            failures[part] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    others.reserve(parts - 1);
    int started = 1;
    try {
        for (; started < parts; ++started) others.emplace_back(run, started);
    } catch (const std::system_error&) {
        // No more threads to be had: this one does the rest.
    }
    run(0);
    for (int part = started; part < parts; ++part) run(part);
    for (auto& thread : others) thread.join();
    for (const auto& failure : failures)
        if (failure) std::rethrow_exception(failure);
}
