// The quote automaton of sources/text/quotes.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace native {

// The states between two bytes. kClosed: after a quote that closed a cell, or is the first half of a doubled one.
enum QuoteState : uint8_t { kOutside, kClosed, kInside };

// Returns the state after text for each state before it. `previous` is the byte before the text, or a newline.
std::array<QuoteState, 3> quote_transition(const uint8_t* data, size_t size, uint8_t previous, uint8_t delimiter, uint8_t quote);

}  // namespace native
