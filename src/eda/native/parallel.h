// Runs contiguous ranges on threads: on those that another library lent, or on new ones that end with the call.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

// GOMP_parallel of an OpenMP runtime: runs a function on a number of threads, of which the calling thread is one.
using Team = void (*)(void (*function)(void*), void* argument, unsigned threads, unsigned flags);

// The threads to use; null means new ones. It is null in a forked process: a pool's threads stay with the parent.
std::atomic<Team>& lent_team();

inline int ranges_used(int64_t count, int threads) {
    return int(std::max<int64_t>(1, std::min<int64_t>(threads, count)));
}

// Calls run(part) once for every part, on as many threads as the system grants.
template <typename Run>
void on_threads(int parts, const Run& run) {
    std::atomic<int> next{0};
    auto take_parts = [&] {
        for (int part; (part = next.fetch_add(1)) < parts;) run(part);
    };
    if (parts == 1) return take_parts();
    if (const Team team = lent_team().load()) {
        auto enter = [](void* take) { (*static_cast<decltype(take_parts)*>(take))(); };
        return team(enter, &take_parts, unsigned(parts), 0);
    }
    std::vector<std::thread> others;
    others.reserve(parts - 1);
    try {
        while (int(others.size()) < parts - 1) others.emplace_back(take_parts);
    } catch (const std::system_error&) {
        // The system grants no more threads: those that run do the rest.
    }
    take_parts();
    for (auto& thread : others) thread.join();
}

// Calls body(begin, end, part) for every part. The split depends on `count` and `threads` alone.
template <typename Body>
void parallel_ranges(int64_t count, int threads, const Body& body) {
    const int parts = ranges_used(count, threads);
    std::vector<std::exception_ptr> failures(parts);
    on_threads(parts, [&](int part) {
        try {
            body(count * part / parts, count * (part + 1) / parts, part);
        } catch (...) {
            failures[part] = std::current_exception();
        }
    });
    for (const auto& failure : failures)
        if (failure) std::rethrow_exception(failure);
}
