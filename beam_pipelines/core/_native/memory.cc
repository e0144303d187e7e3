#include "memory.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace native {
namespace {

constexpr size_t kLeastKept = size_t{1} << 20;  // below, malloc makes no system call
constexpr size_t kMostKept = size_t{128} << 20;

std::mutex kept_lock;
Memory kept[8];  // a stack
size_t num_kept = 0;
size_t kept_size = 0;

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
    if (num_kept) {
      memory = kept[--num_kept];
      kept_size -= memory.size;
    }
  }
  if (memory.size >= size) return memory;
  try {
    resize(memory, size);
  } catch (...) {
    std::free(memory.data);
    throw;
  }
  return memory;
}

void give_back(Memory memory) {
  if (memory.size >= kLeastKept) {
    const std::lock_guard<std::mutex> lock(kept_lock);
    if (num_kept < sizeof kept / sizeof *kept && memory.size <= kMostKept - kept_size) {
      kept[num_kept++] = memory;
      kept_size += memory.size;
      return;
    }
  }
  std::free(memory.data);
}

uint8_t* Buffer::grow(uint8_t* at, size_t size) {
  const size_t used = static_cast<size_t>(at - memory_.data);
  if (size > SIZE_MAX / 4 || used > SIZE_MAX / 4) throw std::bad_alloc();
  resize(memory_, used + used / 2 + size + kSpill);
  return memory_.data + used;
}

Memory Buffer::release(size_t used) {
  Memory memory = std::exchange(memory_, {});
  if (used >= memory.size / 2) return memory;
  // Much of it is not used, or comes from an earlier result.
  if (void* less = std::realloc(memory.data, used + kSpill)) return {static_cast<uint8_t*>(less), used + kSpill};
  return memory;
}

}  // namespace native
