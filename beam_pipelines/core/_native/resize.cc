#include "resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "column.h"

namespace native {
namespace {

constexpr int kBits = 22;
constexpr int32_t kHalf = 1 << (kBits - 1);

// Weights of the pixels of a line that make each pixel of the result.
struct Weights {
  int most;                     // weights of a pixel; unused ones are zero
  std::vector<int> starts;      // the first pixel that counts
  std::vector<int> counts;      // the number of pixels that count
  std::vector<int32_t> values;  // most * size
};

double triangle(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

void check(int height, int width, const Box& box, int new_height, int new_width) {
  if (!(0 <= box.left && box.left < box.right && box.right <= static_cast<float>(width) && 0 <= box.top && box.top < box.bottom &&
        box.bottom <= static_cast<float>(height)) ||
      new_height < 1 || new_width < 1) {
    throw InvalidData("found a box that is empty or not within the image");
  }
}

struct Reach {
  int first, end;
};

Reach reach_of(int length, double center, double widened) {
  return {std::max(0, static_cast<int>(center - widened + 0.5)), std::min(length, static_cast<int>(center + widened + 0.5))};
}

// The pixels of a line that all pixels of the result reach.
Reach reach(int length, float start, float end, int size) {
  const double scale = static_cast<double>(end - start) / size, widened = std::max(scale, 1.0);
  return {reach_of(length, start + 0.5 * scale, widened).first, reach_of(length, start + (size - 0.5) * scale, widened).end};
}

// Pillow has the edges in 32 bits.
Weights make_weights(int length, float start, float end, int size) {
  const double scale = static_cast<double>(end - start) / size, widened = std::max(scale, 1.0);
  Weights weights{static_cast<int>(std::ceil(widened)) * 2 + 1, {}, {}, {}};
  weights.values.assign(static_cast<size_t>(weights.most) * static_cast<size_t>(size), 0);
  std::vector<double> found(static_cast<size_t>(weights.most));
  for (int place = 0; place < size; ++place) {
    const double center = start + (place + 0.5) * scale;
    const auto [first, reached] = reach_of(length, center, widened);
    const int count = reached - first;
    double sum = 0;
    for (int k = 0; k < count; ++k) sum += found[static_cast<size_t>(k)] = triangle((k + first - center + 0.5) * (1.0 / widened));
    int32_t* own = weights.values.data() + static_cast<size_t>(place) * static_cast<size_t>(weights.most);
    for (int k = 0; k < count; ++k) {
      const double share = sum == 0 ? found[static_cast<size_t>(k)] : found[static_cast<size_t>(k)] * (1.0 / sum);
      own[k] = static_cast<int32_t>(0.5 + share * (1 << kBits));
    }
    weights.starts.push_back(first);
    weights.counts.push_back(count);
  }
  return weights;
}

// Weights are not negative, and their sum is 1 to within a few units. So no sum is outside of bytes.
uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(sum >> kBits); }

// Vector instructions are chosen when the program is loaded, by glibc; sanitizers are not ready by then.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define NATIVE_CLONES __attribute__((target_clones("avx2", "sse4.1", "default")))
#else
#define NATIVE_CLONES
#endif

typedef int32_t Ints4 __attribute__((vector_size(16)));

// Makes each pixel of a line of neighbours in the line. Three channels are the first of four: `wide` has room for one number more
// than the line, `sums` for one more than the result.
NATIVE_CLONES void resize_colors(const uint8_t* line, size_t size, const Weights& weights, int width, int32_t* wide, int32_t* sums,
                                 uint8_t* to) {
  for (size_t place = 0; place < size; ++place) wide[place] = line[place];
  const int32_t* own = weights.values.data();
  const int *starts = weights.starts.data(), *counts = weights.counts.data();
  for (int place = 0; place < width; ++place, own += weights.most) {
    Ints4 sum = {kHalf, kHalf, kHalf, kHalf};
    const int32_t* from = wide + static_cast<size_t>(starts[place]) * 3;
    for (int k = 0; k < counts[place]; ++k, from += 3) {
      Ints4 pixel;
      std::memcpy(&pixel, from, sizeof(pixel));
      sum += pixel * own[k];
    }
    std::memcpy(sums + static_cast<size_t>(place) * 3, &sum, sizeof(sum));
  }
  for (size_t place = 0; place < static_cast<size_t>(width) * 3; ++place) to[place] = to_byte(sums[place]);
}

void resize_grey(const uint8_t* line, const Weights& weights, int width, uint8_t* to) {
  const int32_t* own = weights.values.data();
  for (int place = 0; place < width; ++place, own += weights.most) {
    int32_t sum = kHalf;
    const uint8_t* from = line + weights.starts[static_cast<size_t>(place)];
    for (int k = 0; k < weights.counts[static_cast<size_t>(place)]; ++k) sum += from[k] * own[k];
    to[place] = to_byte(sum);
  }
}

// Adds weighted lines of bytes, and writes the sums as bytes.
NATIVE_CLONES void add_lines(const uint8_t* lines, size_t size, const int32_t* weights, int count, int32_t* sums, uint8_t* to) {
  std::fill(sums, sums + size, kHalf);
  for (int k = 0; k < count; ++k, lines += size) {
    const int32_t weight = weights[k];
    for (size_t place = 0; place < size; ++place) sums[place] += lines[place] * weight;
  }
  for (size_t place = 0; place < size; ++place) to[place] = to_byte(sums[place]);
}

}  // namespace

Window window_of(int height, int width, const Box& box, int new_height, int new_width) {
  check(height, width, box, new_height, new_width);
  const Reach down = reach(height, box.top, box.bottom, new_height), across = reach(width, box.left, box.right, new_width);
  return {down.first, across.first, down.end, across.end};
}

void resize(const Pixels& image, const Box& box, int height, int width, uint8_t* to) {
  check(image.height, image.width, box, height, width);
  Weights across = make_weights(image.width, box.left, box.right, width);
  const Weights down = make_weights(image.height, box.top, box.bottom, height);
  const Window& window = image.window;
  const int first = down.starts.front(), end = down.starts.back() + down.counts.back();
  if (first < window.top || end > window.bottom || across.starts.front() < window.left ||
      across.starts.back() + across.counts.back() > window.right) {
    throw InvalidData("found fewer pixels than the box reaches");
  }
  for (int& start : across.starts) start -= window.left;
  const size_t size = static_cast<size_t>(width) * static_cast<size_t>(image.channels);
  std::vector<uint8_t> lines(static_cast<size_t>(end - first) * size);
  const size_t stride = static_cast<size_t>(window.width()) * static_cast<size_t>(image.channels);
  std::vector<int32_t> wide(stride + 1), sums(size + 1);
  for (int row = first; row < end; ++row) {
    const uint8_t* line = image.data + static_cast<size_t>(row - window.top) * stride;
    uint8_t* made = lines.data() + static_cast<size_t>(row - first) * size;
    if (image.channels == 1) {
      resize_grey(line, across, width, made);
    } else {
      resize_colors(line, stride, across, width, wide.data(), sums.data(), made);
    }
  }
  for (int row = 0; row < height; ++row, to += size) {
    const size_t place = static_cast<size_t>(row);
    add_lines(lines.data() + static_cast<size_t>(down.starts[place] - first) * size, size,
              down.values.data() + place * static_cast<size_t>(down.most), down.counts[place], sums.data(), to);
  }
}

}  // namespace native
