#include "quotes.h"

#include <algorithm>

#include "masks.h"

namespace native {
namespace {

// The state between two blocks.
struct Automaton {
  bool is_inside, is_closed;

  bool operator==(const Automaton& other) const { return is_inside == other.is_inside && is_closed == other.is_closed; }

  // Scans a block of `size` bytes. A quote opens at the start of a cell, where `behind_end` has a bit, or after a quote that closes.
  void step(uint64_t quotes, uint64_t behind_end, unsigned size) {
    const uint64_t may_open = behind_end | is_closed;
    // If all of them open and close in turn:
    const uint64_t inside = parity_below(quotes) ^ (uint64_t{0} - is_inside);
    uint64_t closing = quotes & ~inside;
    if (!(quotes & inside & ~(may_open | closing << 1))) {
      is_inside = inside >> 63;
    } else {
      closing = step_by_quote(quotes, may_open);
    }
    is_closed = closing >> (size - 1) & 1;
  }

  // The same, where some quotes are stray: they neither open nor close. Returns those that close.
  uint64_t step_by_quote(uint64_t quotes, uint64_t may_open) {
    uint64_t closing = 0;
    for (; quotes; quotes &= quotes - 1) {
      const uint64_t quote = quotes & (uint64_t{0} - quotes);
      if (is_inside) {
        closing |= quote;
        is_inside = false;
      } else {
        is_inside = (quote & (may_open | closing << 1)) != 0;
      }
    }
    return closing;
  }

  QuoteState state() const { return is_inside ? kInside : is_closed ? kClosed : kOutside; }
};

}  // namespace

std::array<QuoteState, 3> quote_transition(const uint8_t* data, size_t size, uint8_t previous, uint8_t delimiter, uint8_t quote) {
  Automaton automata[] = {{false, false}, {false, true}, {true, false}};
  uint64_t ended = previous == delimiter || previous == '\n' || previous == '\r';
  for (size_t at = 0; at < size; at += Block::kSize) {
    const unsigned number = static_cast<unsigned>(std::min(size - at, Block::kSize));
    uint8_t last[Block::kSize] = {};
    if (number < Block::kSize) std::memcpy(last, data + at, number);
    const Block block(number < Block::kSize ? last : data + at);
    const uint64_t within = ~uint64_t{0} >> (Block::kSize - number);
    const uint64_t ends = (block.equals(delimiter) | block.equals('\n') | block.equals('\r')) & within;
    const uint64_t quotes = block.equals(quote) & within;
    const uint64_t behind_end = ends << 1 | ended;
    ended = ends >> 63;
    // Equal states stay equal, and most are equal after the first stray quote of one of them.
    const bool agree[] = {true, automata[1] == automata[0], automata[2] == automata[0]};
    automata[0].step(quotes, behind_end, number);
    for (int state = 1; state < 3; ++state) {
      if (agree[state]) automata[state] = automata[0];
      else automata[state].step(quotes, behind_end, number);
    }
  }
  return {automata[0].state(), automata[1].state(), automata[2].state()};
}

}  // namespace native
