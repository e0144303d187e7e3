#include "repeats.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "bytes.h"
#include "column.h"
#include "memory.h"

namespace native {
namespace {

constexpr size_t kHashBytes = 16;
// Records whose slots are prefetched at once: a slot of a large table is in no cache.
constexpr int64_t kBlock = 64;

// A slot is 0, or the high half of a number made of the hash, above the place of the first record plus 1.
struct Table {
  explicit Table(int64_t count) {
    while (size * 3 < static_cast<uint64_t>(count) * 4) size *= 2;
    memory = take_memory(size * sizeof(uint64_t));
    std::memset(memory.data, 0, size * sizeof(uint64_t));
  }
  ~Table() { give_back(memory); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  uint64_t* slot(uint64_t place) const { return reinterpret_cast<uint64_t*>(memory.data) + (place & (size - 1)); }

  uint64_t size = 1024;
  Memory memory;
};

// Both halves of a hash count, so that values whose slots are equal cannot be found by calculation.
inline uint64_t number_of(const uint8_t* record) {
  const uint64_t low = load<uint64_t>(record + 8);
  return load<uint64_t>(record) ^ (low << 32 | low >> 32);
}

}  // namespace

std::vector<int64_t> find_repeats(const uint8_t* records, int64_t count, size_t width) {
  if (count >= std::numeric_limits<uint32_t>::max()) throw InvalidData("found 2^32 records or more, expected fewer");
  const Table table(count);
  std::vector<int64_t> found;
  uint64_t numbers[kBlock];
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t size = std::min(kBlock, count - start);
    for (int64_t place = 0; place < size; ++place) {
      numbers[place] = number_of(records + static_cast<size_t>(start + place) * width);
      __builtin_prefetch(table.slot(numbers[place]), 1);
    }
    for (int64_t place = 0; place < size; ++place) {
      const uint8_t* record = records + static_cast<size_t>(start + place) * width;
      const uint64_t high = numbers[place] >> 32 << 32;
      for (uint64_t probe = numbers[place];; ++probe) {
        uint64_t* slot = table.slot(probe);
        if (*slot == 0) {
          *slot = high | static_cast<uint64_t>(start + place + 1);
          break;
        }
        if (*slot >> 32 << 32 != high) continue;
        const uint64_t first = (*slot & std::numeric_limits<uint32_t>::max()) - 1;
        if (std::memcmp(records + first * width, record, kHashBytes) == 0) {
          found.push_back(static_cast<int64_t>(first));
          found.push_back(start + place);
          break;
        }
      }
    }
  }
  return found;
}

}  // namespace native
