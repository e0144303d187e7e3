#include "characters.h"

namespace native {

void sum_weights(const Column& texts, const uint64_t* weights, uint64_t* sums) {
  if (texts.kind != Kind::kBytes && texts.kind != Kind::kLargeBytes) throw UnknownType("");
  for (int64_t row = 0; row < texts.length; ++row) {
    sums[row] = 0;
    if (!texts.is_valid(row)) continue;
    const Range range = texts.bytes_range(row);
    const uint8_t *at = texts.data + range.begin, *end = texts.data + range.end;
    uint64_t one = 0, other = 0;  // two sums, so that an addition does not wait for the one before
    for (; end - at >= 2; at += 2) {
      one += weights[at[0]];
      other += weights[at[1]];
    }
    if (at < end) one += weights[*at];
    sums[row] = one + other;
  }
}

}  // namespace native
