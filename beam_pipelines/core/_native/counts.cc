#include "counts.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "bytes.h"
#include "column.h"

namespace native {
namespace {

// Ascending numbers and their counts. A float64 is an int64 of the same order, which is compared in a third of the time.
struct Run {
  int64_t* values;
  int64_t* counts;
  size_t size;
};

struct Space {
  std::vector<int64_t> values, counts;

  void resize(size_t size) {
    if (size <= values.size()) return;
    values.resize(size);
    counts.resize(size);
  }
};

// Turns the bits of a float64 into a number of the same order, and back. -0.0 becomes the number below that of 0.0.
inline int64_t turn(int64_t bits) { return bits ^ static_cast<int64_t>(static_cast<uint64_t>(bits >> 63) >> 1); }

// Merges two runs and adds the counts of equal values. Returns the size.
// Which value is less cannot be predicted, so that there is no branch on it.
size_t merge(const Run& first, const Run& second, int64_t* __restrict values, int64_t* __restrict counts) {
  const int64_t *a = first.values, *b = second.values, *counts_a = first.counts, *counts_b = second.counts;
  const int64_t *const end_a = a + first.size, *const end_b = b + second.size;
  const int64_t* const begin = values;
  while (a < end_a && b < end_b) {
    const int64_t value_a = *a, value_b = *b;
    const int64_t takes_a = value_a <= value_b, takes_b = value_b <= value_a;
    *values++ = std::min(value_a, value_b);
    *counts++ = (*counts_a & -takes_a) + (*counts_b & -takes_b);
    a += takes_a;
    counts_a += takes_a;
    b += takes_b;
    counts_b += takes_b;
  }
  if (b < end_b) {
    a = b;
    counts_a = counts_b;
  }
  const size_t left = static_cast<size_t>((b < end_b ? end_b : end_a) - a);
  if (left) {
    std::memcpy(values, a, left * sizeof(int64_t));
    std::memcpy(counts, counts_a, left * sizeof(int64_t));
  }
  return static_cast<size_t>(values - begin) + left;
}

// Merges neighbours until one run is left. The runs are in `space`.
Run merge_all(std::vector<Run>& runs, Space* space, Space* other) {
  while (runs.size() > 1) {
    size_t number = 0, used = 0;
    for (size_t place = 0; place < runs.size(); place += 2) {
      int64_t *values = other->values.data() + used, *counts = other->counts.data() + used;
      const Run none{nullptr, nullptr, 0};
      const size_t size = merge(runs[place], place + 1 < runs.size() ? runs[place + 1] : none, values, counts);
      runs[number++] = {values, counts, size};
      used += size;
    }
    runs.resize(number);
    std::swap(space, other);
  }
  return runs.empty() ? Run{nullptr, nullptr, 0} : runs[0];
}

// Replaces values by points; see `points_of` in core/arrow/weighted_values.py. Returns the largest change of a rank, above 0.
double reduce(Run* run, int64_t points, std::vector<int64_t>* sums) {
  const size_t inner = run->size - 2;
  sums->resize(inner);
  int64_t* ends = sums->data();
  int64_t end = 0;
  for (size_t place = 0; place < inner; ++place) ends[place] = end += run->counts[place + 1];
  const double scale = static_cast<double>(points - 2) / static_cast<double>(end);
  const auto group = [&](size_t place) {  // rounded up
    const double share = static_cast<double>(ends[place]) * scale;
    const int64_t whole = static_cast<int64_t>(share);
    return whole + (share > static_cast<double>(whole));
  };
  int64_t moved = 0, next = group(0);
  size_t size = 1;
  for (size_t start = 0; start < inner;) {
    const int64_t own = next;
    size_t stop = start + 1;
    while (stop < inner && (next = group(stop)) == own) ++stop;
    const int64_t low = start ? ends[start - 1] : 0, sum = ends[stop - 1] - low;
    const double half = static_cast<double>(low) + static_cast<double>(sum) / 2;
    size_t middle = start;
    while (middle + 1 < stop && static_cast<double>(ends[middle]) < half) ++middle;
    moved = std::max({moved, (middle ? ends[middle - 1] : 0) - low, ends[stop - 1] - ends[middle]});
    run->values[size] = run->values[middle + 1];
    run->counts[size++] = sum;
    start = stop;
  }
  run->values[size] = run->values[run->size - 1];
  run->counts[size++] = run->counts[run->size - 1];
  run->size = size;
  return std::max(static_cast<double>(moved), std::numeric_limits<double>::min());
}

// Reads the parts of one column into `space`, one run a part. Returns whether the first zero, if any, is -0.0.
bool read_runs(const std::vector<Counted>& parts, size_t column, bool is_float, std::vector<Run>* runs, Space* space) {
  constexpr int64_t kMinusZero = std::numeric_limits<int64_t>::min();
  bool has_zero = false, is_minus = false;
  int64_t total = 0;
  size_t used = 0;
  runs->clear();
  for (const Counted& part : parts) {
    const size_t start = static_cast<size_t>(column ? part.ends[column - 1] : 0), size = static_cast<size_t>(part.ends[column]) - start;
    const Run run{space->values.data() + used, space->counts.data() + used, size};
    for (size_t place = 0; place < size; ++place) {
      const int64_t bits = part.values[start + place];
      run.values[place] = !is_float ? bits : bits == kMinusZero ? 0 : turn(bits);
      const int64_t count = part.small ? part.small[start + place] : part.counts[start + place];
      if (count < 1 || __builtin_add_overflow(total, count, &total)) throw InvalidData("found a count below 1, or a sum beyond int64");
      run.counts[place] = count;
      if (is_float && !has_zero && run.values[place] == 0) {
        has_zero = true;
        is_minus = bits == kMinusZero;
      }
    }
    if (size) runs->push_back(run);
    used += size;
  }
  return is_minus;
}

void check(const std::vector<Counted>& parts, int64_t most, int64_t points) {
  if (parts.empty() || most < 2 || points < 2 || points > std::numeric_limits<int32_t>::max()) {
    throw InvalidData("found no parts, or bounds below 2");
  }
  for (const Counted& part : parts) {
    if (part.num_columns != parts[0].num_columns) throw InvalidData("found parts of other columns");
    int64_t start = 0;
    for (int64_t column = 0; column < part.num_columns; ++column) {
      if (part.ends[column] < start) throw InvalidData("found a column that ends before it begins");
      start = part.ends[column];
    }
    if (start != part.num_values) throw InvalidData("found columns that do not end where the values end");
  }
}

}  // namespace

Merged::~Merged() {
  for (const Memory& memory : {values, counts, ends, moved}) give_back(memory);
}

void merge_counts(const std::vector<Counted>& parts, bool is_float, int64_t most, int64_t points, Merged* merged) {
  check(parts, most, points);
  const size_t columns = static_cast<size_t>(parts[0].num_columns);
  Space spaces[2];
  std::vector<int64_t> sums;
  std::vector<Run> runs;
  Buffer values(columns * sizeof(int64_t)), counts(columns * sizeof(int64_t));
  Buffer ends(columns * sizeof(int64_t)), moved(columns * sizeof(double));
  uint8_t *value_at = values.data(), *count_at = counts.data();
  int64_t used = 0;
  for (size_t column = 0; column < columns; ++column) {
    size_t number = 0;
    for (const Counted& part : parts) number += static_cast<size_t>(part.ends[column] - (column ? part.ends[column - 1] : 0));
    for (Space& space : spaces) space.resize(number);
    const bool is_minus = read_runs(parts, column, is_float, &runs, &spaces[0]);
    Run run = merge_all(runs, &spaces[0], &spaces[1]);
    const double change = run.size > static_cast<size_t>(most) ? reduce(&run, points, &sums) : 0;
    const size_t size = run.size * sizeof(int64_t);
    value_at = values.room(value_at, size);
    count_at = counts.room(count_at, size);
    for (size_t place = 0; place < run.size; ++place) {
      const int64_t value = run.values[place];
      const int64_t bits = !is_float ? value : value == 0 && is_minus ? std::numeric_limits<int64_t>::min() : turn(value);
      store(value_at + place * sizeof(int64_t), bits);
    }
    if (size) std::memcpy(count_at, run.counts, size);
    value_at += size;
    count_at += size;
    used += static_cast<int64_t>(run.size);
    store(ends.data() + column * sizeof(int64_t), used);
    store(moved.data() + column * sizeof(double), change);
  }
  merged->num_values = used;
  merged->values = values.release(static_cast<size_t>(used) * sizeof(int64_t));
  merged->counts = counts.release(static_cast<size_t>(used) * sizeof(int64_t));
  merged->ends = ends.release(columns * sizeof(int64_t));
  merged->moved = moved.release(columns * sizeof(double));
}

}  // namespace native
