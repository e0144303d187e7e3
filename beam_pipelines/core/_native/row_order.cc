#include "row_order.h"

#include <array>
#include <utility>
#include <vector>

#include "hash.h"

namespace native {
namespace {

struct Row {
  uint32_t random;
  uint32_t number;
};

}  // namespace

void order_rows(uint64_t key, int64_t rows, int64_t first, int64_t* out) {
  constexpr int kDigits = 4, kDigitBits = 8;
  const size_t count = static_cast<size_t>(rows);
  std::vector<Row> from(count), to(count);
  std::array<std::array<uint32_t, 1 << kDigitBits>, kDigits> ends{};
  for (size_t number = 0; number < count; ++number) {
    const uint32_t random = static_cast<uint32_t>(mix(key + number * kGolden) >> 32);
    from[number] = {random, static_cast<uint32_t>(number)};
    for (int digit = 0; digit < kDigits; ++digit) ++ends[static_cast<size_t>(digit)][random >> digit * kDigitBits & 0xFF];
  }
  // Rows are sorted by one digit after the other; of equal random numbers, the first row stays first.
  for (int digit = 0; digit < kDigits; ++digit) {
    uint32_t start = 0;
    for (uint32_t& end : ends[static_cast<size_t>(digit)]) start += std::exchange(end, start);
    for (const Row& row : from) to[ends[static_cast<size_t>(digit)][row.random >> digit * kDigitBits & 0xFF]++] = row;
    from.swap(to);
  }
  for (const Row& row : from) *out++ = first + row.number;
}

}  // namespace native
