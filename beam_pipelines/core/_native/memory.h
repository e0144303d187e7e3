// Memory for results: a growing buffer, and the reuse of freed results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// Memory from malloc, to be passed to give_back.
struct Memory {
  uint8_t* data = nullptr;
  size_t size = 0;
};

// Returns memory of at least a size, with any content. Throws std::bad_alloc.
Memory take_memory(size_t size);

// Frees memory, but keeps some for the next results: mapping and clearing fresh pages takes a third of
// the time of filling them.
void give_back(Memory memory);

// Memory that grows. A writer keeps `at`, the place of the next byte, in a register, and calls `room` before it writes.
class Buffer {
 public:
  // A write may spill this many bytes; the next write overwrites them, or they are never read.
  static constexpr size_t kSpill = 64;

  explicit Buffer(size_t size) : memory_(take_memory(size + kSpill)) {}
  ~Buffer() { give_back(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() const { return memory_.data; }

  // The end of the space; a write may spill over it.
  uint8_t* end() const { return memory_.data + memory_.size - kSpill; }

  // Returns the place for at least `size` more bytes: `at`, or its new place after a move.
  uint8_t* room(uint8_t* at, size_t size) {
    if (static_cast<size_t>(memory_.data + memory_.size - at) >= size + kSpill) return at;
    return grow(at, size);
  }

  // Releases the memory, which has `used` bytes in use.
  Memory release(size_t used);

 private:
  uint8_t* grow(uint8_t* at, size_t size);

  Memory memory_;
};

}  // namespace native
