#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace native {
namespace {

constexpr size_t kLeastKept = size_t{64} << 10;  // below, malloc makes no system call
constexpr size_t kMostKept = size_t{64} << 20;
constexpr size_t kLarge = size_t{1} << 20;

std::mutex kept_lock;
Memory kept[256];  // the first one is kept longest
size_t num_kept = 0;
size_t kept_size = 0;

Memory remove_kept(size_t place) {
  const Memory memory = kept[place];
  std::copy(kept + place + 1, kept + num_kept, kept + place);
  --num_kept;
  kept_size -= memory.size;
  return memory;
}

// Returns the smallest kept memory of a size, but not of much more; else the last large one for a large size; else none.
Memory find_kept(size_t size) {
  size_t best = num_kept;
  for (size_t place = 0; place < num_kept; ++place) {
    if (kept[place].size < size || kept[place].size / 2 > size) continue;
    if (best == num_kept || kept[place].size < kept[best].size) best = place;
  }
  for (size_t place = num_kept; best == num_kept && size >= kLarge && place-- > 0;) {
    if (kept[place].size >= kLarge && kept[place].size < size) return remove_kept(place);
  }
  return best < num_kept ? remove_kept(best) : Memory{};
}

void resize(Memory& memory, size_t size) {
  void* data = std::realloc(memory.data, size);
  if (!data) throw std::bad_alloc();
  memory = {static_cast<uint8_t*>(data), size};
}

}  // namespace

Memory take_memory(size_t size) {
  Memory memory;
  if (size >= kLeastKept) {
    const std::lock_guard<std::mutex> lock(kept_lock);
    memory = find_kept(size);
  }
  if (memory.size >= size) return memory;
  std::free(memory.data);  // not resized, which would copy its bytes
  memory = {};
  resize(memory, size);
  return memory;
}

void give_back(Memory memory) {
  if (memory.size >= kLeastKept && memory.size <= kMostKept) {
    const std::lock_guard<std::mutex> lock(kept_lock);
    // Pieces that were kept longest are freed, so that sizes of an earlier step do not fill the list.
    while (num_kept == sizeof kept / sizeof *kept || memory.size > kMostKept - kept_size) std::free(remove_kept(0).data);
    kept[num_kept++] = memory;
    kept_size += memory.size;
    return;
  }
  std::free(memory.data);
}

uint8_t* Buffer::grow(uint8_t* at, size_t size) {
  const size_t used = static_cast<size_t>(at - memory_.data);
  if (size > SIZE_MAX / 4 || used > SIZE_MAX / 4) throw std::bad_alloc();
  const size_t wanted = used + used / 2 + size + kSpill;
  if (wanted < 2 * memory_.size) {
    resize(memory_, wanted);
  } else {  // to copy less than half of it costs less than fresh pages
    const Memory more = take_memory(wanted);
    std::memcpy(more.data, memory_.data, used);
    give_back(std::exchange(memory_, more));
  }
  return memory_.data + used;
}

Memory Buffer::release(size_t used) {
  Memory memory = std::exchange(memory_, {});
  if (used >= memory.size / 2) return memory;
  if (memory.size < kLeastKept) {
    void* less = std::realloc(memory.data, used + kSpill);
    return less ? Memory{static_cast<uint8_t*>(less), used + kSpill} : memory;
  }
  // A copy costs less than fresh pages for the next result of this size.
  memory_ = memory;
  const Memory less = take_memory(used + kSpill);
  std::memcpy(less.data, memory.data, used);
  give_back(std::exchange(memory_, {}));
  return less;
}

}  // namespace native
