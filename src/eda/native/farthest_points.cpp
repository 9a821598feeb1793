// Farthest point sampling, exact, on a k-d tree.
//
// The gap of a point is its squared distance to the chosen set. Every node of the tree stores its bounding box and the
// largest gap of its points. A new point therefore updates only the leaves whose gaps it can reduce, and the next point
// is read from the root.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <vector>

namespace {

constexpr int64_t leaf_size = 16;

struct Node {
    int64_t begin, end;   // its points in the sorted order
    int64_t left, right;  // its children, or -1 for a leaf
    double low[3], high[3];
    double gap;        // the largest gap of its points
    int64_t farthest;  // the place of that point in the sorted order
};

class Sampler {
public:
    Sampler(const double* points, int64_t count) : order_(count), gap_(count, std::numeric_limits<double>::infinity()) {
        std::iota(order_.begin(), order_.end(), int64_t(0));
        nodes_.reserve(4 * count / leaf_size + 1);
        grow(points, 0, count);
        sorted_.resize(3 * count);
        for (int64_t i = 0; i < count; ++i)
            for (int a = 0; a < 3; ++a) sorted_[3 * i + a] = points[3 * order_[i] + a];
    }

    // The place in the sorted order of the point with this original index.
    int64_t place_of(int64_t index) const { return std::find(order_.begin(), order_.end(), index) - order_.begin(); }

    int64_t farthest() const { return nodes_[0].farthest; }

    // The squared distance of a point (by its place) to those chosen so far.
    double gap(int64_t place) const { return gap_[place]; }

    // Marks a point (by its place in the sorted order) as chosen; returns its original index.
    int64_t choose(int64_t place) {
        const double chosen[3] = {sorted_[3 * place], sorted_[3 * place + 1], sorted_[3 * place + 2]};
        gap_[place] = -1;  // never chosen again, even if others coincide with it
        update(0, place, chosen);
        return order_[place];
    }

private:
    std::vector<int64_t> order_;
    std::vector<double> gap_, sorted_;
    std::vector<Node> nodes_;

    int64_t grow(const double* points, int64_t begin, int64_t end) {
        Node node{begin, end, -1, -1, {}, {}, std::numeric_limits<double>::infinity(), begin};
        int axis = 0;
        for (int a = 0; a < 3; ++a) {
            node.low[a] = node.high[a] = points[3 * order_[begin] + a];
            for (int64_t i = begin; i < end; ++i) {
                node.low[a] = std::min(node.low[a], points[3 * order_[i] + a]);
                node.high[a] = std::max(node.high[a], points[3 * order_[i] + a]);
            }
            if (node.high[a] - node.low[a] > node.high[axis] - node.low[axis]) axis = a;
        }
        const int64_t self = int64_t(nodes_.size());
        nodes_.push_back(node);
        if (end - begin > leaf_size) {
            const int64_t middle = begin + (end - begin) / 2;
            std::nth_element(
                order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                [&](int64_t i, int64_t j) { return points[3 * i + axis] < points[3 * j + axis]; }
            );
            const int64_t left = grow(points, begin, middle), right = grow(points, middle, end);
            nodes_[self].left = left, nodes_[self].right = right;
        }
        return self;
    }

    void update(int64_t self, int64_t place, const double* chosen) {
        Node& node = nodes_[self];
        const bool holds_it = node.begin <= place && place < node.end;
        if (!holds_it && distance(node, chosen) >= node.gap) return;
        if (node.left < 0) {
            node.gap = -2;
            for (int64_t i = node.begin; i < node.end; ++i) {
                gap_[i] = std::min(gap_[i], squared(i, chosen));
                if (beats(gap_[i], i, node.gap, node.farthest)) node.gap = gap_[i], node.farthest = i;
            }
            return;
        }
        update(node.left, place, chosen);
        update(node.right, place, chosen);
        const Node &left = nodes_[node.left], &right = nodes_[node.right];
        const Node& best = beats(left.gap, left.farthest, right.gap, right.farthest) ? left : right;
        node.gap = best.gap, node.farthest = best.farthest;
    }

    // The larger gap wins; of equals, the point with the lower original index.
    bool beats(double gap, int64_t place, double other, int64_t other_place) const {
        return gap > other || (gap == other && order_[place] < order_[other_place]);
    }

    double squared(int64_t place, const double* to) const {
        double total = 0;
        for (int a = 0; a < 3; ++a) total += (sorted_[3 * place + a] - to[a]) * (sorted_[3 * place + a] - to[a]);
        return total;
    }

    static double distance(const Node& node, const double* to) {
        double total = 0;
        for (int a = 0; a < 3; ++a) {
            const double outside = std::max(std::max(node.low[a] - to[a], to[a] - node.high[a]), 0.0);
            total += outside * outside;
        }
        return total;
    }
};

}  // namespace

// points (count, 3), 1 <= wanted <= count, the first to choose -> chosen (wanted,), their squared gaps (wanted,)
// The result is 0, 1 when memory ran out, or 2 when the arguments do not fit. (Points that are not finite have no order,
// and sorting them could leave the array.)
extern "C" __attribute__((visibility("default"))) int eda_farthest_points(
    const double* points, int64_t count, int64_t wanted, int64_t first, int64_t* chosen, double* gaps
) try {
    if (wanted < 1 || wanted > count || first < 0 || first >= count) return 2;
    if (!std::all_of(points, points + 3 * count, [](double x) { return std::isfinite(x); })) return 2;
    Sampler sampler(points, count);
    for (int64_t i = 0; i < wanted; ++i) {
        const int64_t place = i ? sampler.farthest() : sampler.place_of(first);
        gaps[i] = sampler.gap(place);
        chosen[i] = sampler.choose(place);
    }
    return 0;
} catch (const std::exception&) {
    return 1;
}
