// Memory for results: a buffer that grows, and the pages of results that are no longer needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// A piece of memory of malloc, to be given back when it is no longer needed.
struct Memory {
  uint8_t* data = nullptr;
  size_t size = 0;
};

// Returns memory of at least a size, with any content. Throws std::bad_alloc.
Memory take_memory(size_t size);

// Takes memory back. Some of it is kept for who asks next: pages that the system maps and clears anew for every batch cost a third of the
// time that it takes to fill them.
void give_back(Memory memory);

// Memory that grows. Whoever writes holds `at`, the place of the next byte, in a register, and asks for room before writing.
class Buffer {
 public:
  // A write may spill this many bytes over its end: what follows is overwritten by the next write, or is never looked at.
  static constexpr size_t kSpill = 64;

  explicit Buffer(size_t size) : memory_(take_memory(size + kSpill)) {}
  ~Buffer() { give_back(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() const { return memory_.data; }

  // Up to where there is room; what is written may spill over it.
  uint8_t* end() const { return memory_.data + memory_.size - kSpill; }

  // Returns where to go on writing at least `size` bytes: `at`, or its new place where the buffer had to move.
  uint8_t* room(uint8_t* at, size_t size) {
    if (static_cast<size_t>(memory_.data + memory_.size - at) >= size + kSpill) return at;
    return grow(at, size);
  }

  // Hands the memory over, of which `used` bytes are in use.
  Memory release(size_t used);

 private:
  uint8_t* grow(uint8_t* at, size_t size);

  Memory memory_;
};

}  // namespace native
