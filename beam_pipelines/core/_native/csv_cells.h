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

// Scans text that begins with a record.
//
// Declines text, which another parser then reads, if
// - a quote is inside a cell that does not begin with one, text follows a closing quote, or a quote is never closed;
// - a carriage return outside quotes has no newline after it.
class CellFinder {
 public:
  // Of `data`, which has less than 4 GiB.
  CellFinder(const uint8_t* data, size_t size, CsvDialect dialect);

  // Appends the ends of the next cells, at least `least` of them unless the text ends first. A last
  // line without a line end ends after its last byte. Returns false if the text is declined.
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
  // The last byte of the block, as bits before the first of the next block.
  uint64_t may_open_ = 1;   // a byte before a cell, or a quote that closes or is doubled
  uint64_t closed_ = 0;     // a quote that closes
  uint64_t returned_ = 0;   // a carriage return
  uint64_t inside_ = 0;     // all ones inside quotes
};

}  // namespace native
