// Where the cells of CSV text end: delimiters and line ends outside quotes, found 64 bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace native {

struct CsvDialect {
  uint8_t delimiter;
  int quote;  // -1: there is no quoting
};

// Walks through text that begins where a record does.
//
// Text is declined, which is to say: left to a parser that knows what to make of it, if
// - a quote stands inside a cell that does not begin with one, or text stands behind a closing quote, or a quote is never closed;
// - a carriage return outside quotes has no newline behind it.
class CellFinder {
 public:
  // Of `data`, which has less than 4 GiB.
  CellFinder(const uint8_t* data, size_t size, CsvDialect dialect);

  // Appends the places at which the next cells end, at least `least` of them unless the text ends before. A text whose last line has no end
  // gets one behind its last byte. Returns false if the text is declined.
  bool find(size_t least, std::vector<uint32_t>* ends);

  bool is_done() const { return at_ == size_; }
  size_t lines() const { return lines_; }               // that ended so far, blank ones too
  bool has_quotes() const { return has_quotes_; }       // so far, as the next two
  bool has_returns() const { return has_returns_; }
  bool is_ascii() const { return is_ascii_; }

 private:
  struct Ends {
    uint64_t cells, lines;
  };

  Ends scan(const uint8_t* block, uint64_t within);

  const uint8_t* data_;
  size_t size_, at_ = 0, lines_ = 0;
  CsvDialect dialect_;
  bool has_quotes_ = false, has_returns_ = false, is_ascii_ = true, is_declined_ = false;
  // What the last byte was, as bits that stand before the next block's first.
  uint64_t may_open_ = 1;   // one behind which a cell begins, or the quote that closes or is doubled
  uint64_t closed_ = 0;     // a quote that closes
  uint64_t returned_ = 0;   // a carriage return
  uint64_t inside_ = 0;     // all ones inside quotes
};

}  // namespace native
