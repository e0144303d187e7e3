#include "csv_cells.h"

#include <algorithm>

#include "masks.h"

namespace native {

CellFinder::CellFinder(const uint8_t* data, size_t size, CsvDialect dialect) : data_(data), size_(size), dialect_(dialect) {}

// Scans one block, whose text is at the bits `within`. A mask shifted by one is about the byte before.
inline CellFinder::Ends CellFinder::scan(const uint8_t* bytes, uint64_t within) {
  const Block block(bytes);
  uint64_t delimiters = block.equals(dialect_.delimiter) & within;
  uint64_t lines = block.equals('\n') & within;
  uint64_t returns = block.equals('\r') & within;
  const uint64_t quotes = dialect_.quote < 0 ? 0 : block.equals(static_cast<uint8_t>(dialect_.quote)) & within;
  uint64_t closing = 0;
  is_ascii_ &= block.is_ascii();
  if (quotes | inside_ | closed_) {
    // Quotes open and close in turn. A doubled quote closes a cell and opens it again.
    const uint64_t inside = parity_below(quotes) ^ inside_;
    const uint64_t opening = quotes & inside;
    closing = quotes & ~inside;
    delimiters &= ~inside;
    lines &= ~inside;
    returns &= ~inside;
    const uint64_t may_open = (delimiters | lines | closing) << 1 | may_open_;
    const uint64_t behind_closing = closing << 1 | closed_;
    const uint64_t known_behind = delimiters | lines | returns | quotes | ~within;
    is_declined_ |= (opening & ~may_open) != 0 || (behind_closing & ~known_behind) != 0;
    inside_ = uint64_t{0} - (inside >> 63);
    has_quotes_ |= quotes != 0;
  }
  if (returns | returned_) {
    is_declined_ |= ((returns << 1 | returned_) & ~lines) != 0;
    has_returns_ = true;
  }
  may_open_ = (delimiters | lines | closing) >> 63;
  closed_ = closing >> 63;
  returned_ = returns >> 63;
  return {delimiters | lines, lines};
}

bool CellFinder::find(size_t least, std::vector<uint32_t>* ends) {
  size_t count = ends->size();
  const size_t wanted = count + least;
  ends->resize(wanted + Block::kSize + 8);  // space for one more block's ends, and eight more writes
  uint32_t* const places = ends->data();
  while (count < wanted && at_ < size_ && !is_declined_) {
    Ends found;
    const uint32_t begin = static_cast<uint32_t>(at_);
    if (size_ - at_ >= Block::kSize) {
      found = scan(data_ + at_, ~uint64_t{0});
      at_ += Block::kSize;
    } else {
      uint8_t last[Block::kSize] = {};
      std::memcpy(last, data_ + at_, size_ - at_);
      found = scan(last, (uint64_t{1} << (size_ - at_)) - 1);
      at_ = size_;
    }
    for (uint64_t left = found.lines; left; left &= left - 1) ++lines_;
    // Always eight at a time: a branch on their number would be unpredictable.
    const size_t number = static_cast<size_t>(__builtin_popcountll(found.cells));
    for (size_t place = 0; place < number; place += 8) {
      for (size_t next = place; next < place + 8; ++next) {
        places[count + next] = begin + lowest_bit(found.cells);
        found.cells &= found.cells - 1;
      }
    }
    count += number;
  }
  if (at_ == size_ && !is_declined_ && size_ && data_[size_ - 1] != '\n') {
    is_declined_ = inside_ || data_[size_ - 1] == '\r';
    places[count++] = static_cast<uint32_t>(size_);
    ++lines_;
  }
  if (at_ == size_) is_declined_ |= inside_ != 0;
  ends->resize(count);
  return !is_declined_;
}

}  // namespace native
