// Writes blocks of a deflate stream: literals and matches, in codes made for them. Format: RFC 1951.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace native {

constexpr size_t kWindow = 1 << 15;  // the longest distance of a match
constexpr size_t kLeastMatch = 3, kMostMatch = 258;

// Packs bits from the lowest one of each byte up. The memory has 8 bytes more than are written.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* at) : at_(at) {}

  // Adds bits; the others of `bits` are 0. Between two calls of `flush` there is space for 57 bits.
  void add(uint64_t bits, unsigned count) {
    pending_ |= bits << count_;
    count_ += count;
  }

  // Writes the whole bytes.
  void flush();

  // Fills the last byte with zeros, and returns the end.
  uint8_t* align();

  // Continues after bytes that the caller has written.
  void go_on(uint8_t* at) { at_ = at; }

 private:
  uint8_t* at_;
  uint64_t pending_ = 0;
  unsigned count_ = 0;
};

// The literals and matches of a block, and how often each symbol occurs.
class Block {
 public:
  explicit Block(const uint8_t* start);

  // The end of the last match: the bytes from here on are literals, unless a match is added.
  const uint8_t* end() const { return end_; }

  const uint8_t* start() const { return start_; }

  // Adds the bytes up to `match` as literals, and a match of at least kLeastMatch bytes.
  void add(const uint8_t* match, size_t size, size_t distance);

  // Adds the bytes up to `end` as literals, writes the block, and starts the next one there.
  // It takes at most `stored_size(end - start())` bytes.
  void write(const uint8_t* end, BitWriter& out);

  static constexpr size_t stored_size(size_t size) { return size + (size / kMostStored + 2) * 5; }

 private:
  static constexpr size_t kSymbols = 286, kDistances = 30, kMostStored = 65535;

  struct Sequence {
    uint32_t literals;
    uint16_t size, distance;  // of the match after the literals
  };
  struct Codes;

  void count_literals(const uint8_t* end);
  void restart(const uint8_t* start);
  void write_stored(const uint8_t* end, BitWriter& out) const;
  void write_symbols(const uint8_t* end, const Codes& codes, BitWriter& out) const;

  const uint8_t *start_, *end_;
  std::vector<Sequence> sequences_;
  // Literals next to each other are counted in different tables: an addition need not wait for the one before.
  uint32_t symbols_[4][kSymbols], distances_[kDistances];
};

}  // namespace native
