#include "deflate_block.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bytes.h"
#include "deflate_codes.h"

namespace native {
namespace {

constexpr unsigned kStored = 0, kFixed = 1, kDynamic = 2;
constexpr size_t kEndOfBlock = 256, kFirstSize = 257;
// Four literals, or a match with its extra bits, fit between two flushes.
constexpr unsigned kLongestCode = 14;

// What a symbol of sizes or distances stands for: its least value, and the number of extra bits.
struct Meaning {
  uint16_t base;
  uint8_t extra;
};

constexpr std::array<Meaning, 29> make_sizes() {
  std::array<Meaning, 29> made{};
  unsigned base = kLeastMatch;
  for (unsigned symbol = 0; symbol < 28; ++symbol) {
    const unsigned extra = symbol < 8 ? 0 : symbol / 4 - 1;
    made[symbol] = {static_cast<uint16_t>(base), static_cast<uint8_t>(extra)};
    base += 1u << extra;
  }
  made[28] = {kMostMatch, 0};
  return made;
}

constexpr std::array<Meaning, 30> make_distances() {
  std::array<Meaning, 30> made{};
  unsigned base = 1;
  for (unsigned symbol = 0; symbol < 30; ++symbol) {
    const unsigned extra = symbol < 4 ? 0 : symbol / 2 - 1;
    made[symbol] = {static_cast<uint16_t>(base), static_cast<uint8_t>(extra)};
    base += 1u << extra;
  }
  return made;
}

constexpr auto kSizes = make_sizes();
constexpr auto kDistanceMeanings = make_distances();

constexpr std::array<uint8_t, kMostMatch + 1> make_size_symbols() {
  std::array<uint8_t, kMostMatch + 1> made{};
  for (unsigned symbol = 0; symbol < 29; ++symbol) {
    for (unsigned size = kSizes[symbol].base; size < kSizes[symbol].base + (1u << kSizes[symbol].extra) && size <= kMostMatch; ++size) {
      made[size] = static_cast<uint8_t>(symbol);
    }
  }
  return made;
}

constexpr auto kSizeSymbols = make_size_symbols();

inline unsigned distance_symbol(unsigned distance) {
  const unsigned value = distance - 1;
  if (value < 4) return value;
  const unsigned top = 31u ^ static_cast<unsigned>(__builtin_clz(value));
  return 2 * top + (value >> (top - 1) & 1);
}

// The order of the sizes of the codes of sizes (RFC 1951, 3.2.7).
constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

// The sizes of a block's codes, as its head has them: runs of equal sizes are one symbol.
class Head {
 public:
  Head(const Code* symbols, size_t symbol_count, const Code* distances, size_t distance_count) {
    while (symbol_count > kFirstSize && !symbols[symbol_count - 1].size) --symbol_count;
    while (distance_count > 1 && !distances[distance_count - 1].size) --distance_count;
    symbol_count_ = symbol_count;
    distance_count_ = distance_count;
    uint8_t sizes[320];
    size_t count = 0;
    for (size_t symbol = 0; symbol < symbol_count; ++symbol) sizes[count++] = symbols[symbol].size;
    for (size_t symbol = 0; symbol < distance_count; ++symbol) sizes[count++] = distances[symbol].size;
    for (size_t at = 0, end; at < count; at = end) {
      for (end = at; end < count && sizes[end] == sizes[at]; ++end) {
      }
      add_run(sizes[at], static_cast<unsigned>(end - at));
    }
    make_codes(counts_, 19, 7, codes_);
    while (order_count_ > 4 && !codes_[kOrder[order_count_ - 1]].size) --order_count_;
  }

  uint64_t bits() const {
    uint64_t sum = 14 + 3 * order_count_;
    for (size_t at = 0; at < count_; ++at) sum += codes_[entries_[at].symbol].size + extra_of(entries_[at].symbol);
    return sum;
  }

  void write(BitWriter& out) const {
    out.add(symbol_count_ - kFirstSize, 5);
    out.add(distance_count_ - 1, 5);
    out.add(order_count_ - 4, 4);
    out.flush();
    for (size_t at = 0; at < order_count_; ++at) {
      out.add(codes_[kOrder[at]].size, 3);
      out.flush();
    }
    for (size_t at = 0; at < count_; ++at) {
      const Code code = codes_[entries_[at].symbol];
      out.add(code.bits, code.size);
      out.add(entries_[at].extra, extra_of(entries_[at].symbol));
      out.flush();
    }
  }

 private:
  struct Entry {
    uint8_t symbol, extra;
  };

  static unsigned extra_of(unsigned symbol) { return symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7; }

  void add(unsigned symbol, unsigned extra) {
    entries_[count_++] = {static_cast<uint8_t>(symbol), static_cast<uint8_t>(extra)};
    ++counts_[symbol];
  }

  void add_run(unsigned size, unsigned count) {
    if (size) {
      add(size, 0);
      for (--count; count >= 3;) {
        const unsigned now = std::min(count, 6u);
        add(16, now - 3);
        count -= now;
      }
    } else {
      while (count >= 3) {
        const unsigned now = std::min(count, 138u);
        now < 11 ? add(17, now - 3) : add(18, now - 11);
        count -= now;
      }
    }
    while (count-- > 0) add(size, 0);
  }

  Entry entries_[320];
  size_t count_ = 0, symbol_count_, distance_count_, order_count_ = 19;
  uint32_t counts_[19] = {};
  Code codes_[19];
};

}  // namespace

void BitWriter::flush() {
  store(at_, pending_);
  at_ += count_ >> 3;
  pending_ >>= count_ & ~7u;
  count_ &= 7;
}

uint8_t* BitWriter::align() {
  flush();
  if (count_) count_ = 8;
  flush();
  return at_;
}

// The codes of literals, sizes and the end of the block, and of distances.
struct Block::Codes {
  Code symbols[kSymbols], distances[kDistances];

  // The codes of a block without a description (RFC 1951, 3.2.6). The two last symbols of 288 are never used.
  static Codes fixed() {
    Code all[288];
    for (unsigned symbol = 0; symbol < 288; ++symbol) {
      all[symbol].size = symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
    }
    number_codes(all, 288);
    Code distances[32];
    for (Code& code : distances) code.size = 5;
    number_codes(distances, 32);
    Codes made;
    std::copy_n(all, kSymbols, made.symbols);
    std::copy_n(distances, kDistances, made.distances);
    return made;
  }

  uint64_t bits(const uint32_t* symbol_counts, const uint32_t* distance_counts) const {
    uint64_t sum = 0;
    for (size_t symbol = 0; symbol < kSymbols; ++symbol) {
      const unsigned extra = symbol < kFirstSize ? 0 : kSizes[symbol - kFirstSize].extra;
      sum += uint64_t{symbol_counts[symbol]} * (symbols[symbol].size + extra);
    }
    for (size_t symbol = 0; symbol < kDistances; ++symbol) {
      sum += uint64_t{distance_counts[symbol]} * (distances[symbol].size + kDistanceMeanings[symbol].extra);
    }
    return sum;
  }
};

Block::Block(const uint8_t* start) { restart(start); }

void Block::restart(const uint8_t* start) {
  start_ = end_ = start;
  sequences_.clear();
  std::memset(symbols_, 0, sizeof symbols_);
  std::memset(distances_, 0, sizeof distances_);
}

void Block::count_literals(const uint8_t* end) {
  const uint8_t* at = end_;
  for (; end - at >= 4; at += 4) {
    ++symbols_[0][at[0]];
    ++symbols_[1][at[1]];
    ++symbols_[2][at[2]];
    ++symbols_[3][at[3]];
  }
  for (; at < end; ++at) ++symbols_[0][*at];
}

void Block::add(const uint8_t* match, size_t size, size_t distance) {
  count_literals(match);
  size_t literals = static_cast<size_t>(match - end_);
  end_ = match + size;
  const unsigned symbol = distance_symbol(static_cast<unsigned>(distance));
  while (size) {
    // No rest is shorter than a match.
    const size_t now = size <= kMostMatch ? size : std::min(kMostMatch, size - kLeastMatch);
    ++symbols_[0][kFirstSize + kSizeSymbols[now]];
    ++distances_[symbol];
    sequences_.push_back({static_cast<uint32_t>(literals), static_cast<uint16_t>(now), static_cast<uint16_t>(distance)});
    literals = 0;
    size -= now;
  }
}

void Block::write(const uint8_t* end, BitWriter& out) {
  count_literals(end);
  uint32_t* const counts = symbols_[0];
  for (size_t symbol = 0; symbol < kSymbols; ++symbol) counts[symbol] += symbols_[1][symbol] + symbols_[2][symbol] + symbols_[3][symbol];
  counts[kEndOfBlock] = 1;
  static const Codes fixed = Codes::fixed();
  Codes made;
  make_codes(counts, kSymbols, kLongestCode, made.symbols);
  make_codes(distances_, kDistances, kLongestCode, made.distances);
  const Head head(made.symbols, kSymbols, made.distances, kDistances);
  const uint64_t dynamic_bits = head.bits() + made.bits(counts, distances_), fixed_bits = fixed.bits(counts, distances_);
  const uint64_t stored_bits = 8 * (stored_size(static_cast<size_t>(end - start_)) - 5);
  if (std::min(dynamic_bits, fixed_bits) >= stored_bits) {
    write_stored(end, out);
  } else if (fixed_bits <= dynamic_bits) {
    out.add(kFixed << 1, 3);
    write_symbols(end, fixed, out);
  } else {
    out.add(kDynamic << 1, 3);
    head.write(out);
    write_symbols(end, made, out);
  }
  restart(end);
}

void Block::write_stored(const uint8_t* end, BitWriter& out) const {
  for (const uint8_t* at = start_; at < end;) {
    const size_t size = std::min(static_cast<size_t>(end - at), kMostStored);
    out.add(kStored << 1, 3);
    uint8_t* const to = out.align();
    store(to, static_cast<uint16_t>(size));
    store(to + 2, static_cast<uint16_t>(~size));
    std::memcpy(to + 4, at, size);
    out.go_on(to + 4 + size);
    at += size;
  }
}

void Block::write_symbols(const uint8_t* end, const Codes& codes, BitWriter& out) const {
  // A size's code with its extra bits is looked up at once.
  struct {
    uint32_t bits;
    uint8_t size;
  } sizes[kMostMatch + 1];
  for (unsigned size = kLeastMatch; size <= kMostMatch; ++size) {
    const Meaning meaning = kSizes[kSizeSymbols[size]];
    const Code code = codes.symbols[kFirstSize + kSizeSymbols[size]];
    sizes[size] = {code.bits | (size - meaning.base) << code.size, static_cast<uint8_t>(code.size + meaning.extra)};
  }
  const auto put = [&](Code code) { out.add(code.bits, code.size); };
  const uint8_t* at = start_;
  const auto put_literals = [&](const uint8_t* last) {
    for (; last - at >= 4; at += 4) {
      for (int place = 0; place < 4; ++place) put(codes.symbols[at[place]]);
      out.flush();
    }
    while (at < last) put(codes.symbols[*at++]);
    out.flush();
  };
  for (const Sequence& sequence : sequences_) {
    put_literals(at + sequence.literals);
    out.add(sizes[sequence.size].bits, sizes[sequence.size].size);
    const unsigned symbol = distance_symbol(sequence.distance);
    put(codes.distances[symbol]);
    out.add(sequence.distance - kDistanceMeanings[symbol].base, kDistanceMeanings[symbol].extra);
    out.flush();
    at += sequence.size;
  }
  put_literals(end);
  put(codes.symbols[kEndOfBlock]);
  out.flush();
}

}  // namespace native
