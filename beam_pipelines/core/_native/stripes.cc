#include "stripes.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <type_traits>
#include <utility>

#include "bytes.h"

// A stripe: its size and its number of rows (uint32 each), then its columns. A column:
//   one byte: 1 with nulls, else 0; with nulls, a bit for each value, 1 where it is valid;
//   of bool: a bit for each value; of floats: the values;
//   of integers: the width of what is stored of a value, the least value (int64), values less the least;
//   of texts: the width of what is stored of a length, the least length (int64), lengths less the least, bytes;
//   of lists: as of texts, and the column of their values instead of bytes.
// A null is stored as the least value or length, and has no bytes.

namespace native {
namespace {

constexpr size_t kMostAtFirst = size_t{64} << 20;
// Rows of a stripe, and values of its lists. Others are not packed, and no damaged stripe makes the kernel allocate more.
constexpr int64_t kMostValues = int64_t{1} << 26;
// Bytes of a column that are unpacked at a time, from consecutive stripes.
constexpr size_t kBytesAtATime = 2048;
constexpr size_t kHeader = 2 * sizeof(uint32_t);

size_t bytes_of_bits(int64_t bits) { return static_cast<size_t>(bits + 7) / 8; }

// Copies bits, eight at a time; bits of `to` below `at` stay. Returns how many are 1.
int64_t copy_bits(const uint8_t* from, int64_t offset, uint8_t* to, int64_t at, int64_t count) {
  int64_t ones = 0;
  for (int64_t place = 0; place < count; place += 8) {
    const int64_t bits = std::min<int64_t>(count - place, 8), read = offset + place, written = at + place;
    unsigned value = from[read >> 3] >> (read & 7);
    if ((read & 7) + bits > 8) value |= static_cast<unsigned>(from[(read >> 3) + 1]) << (8 - (read & 7));
    value &= (1u << bits) - 1;
    ones += __builtin_popcount(value);
    uint8_t* const byte = to + (written >> 3);
    const unsigned shift = static_cast<unsigned>(written & 7);
    *byte = static_cast<uint8_t>((*byte & ((1u << shift) - 1)) | value << shift);
    if (shift + static_cast<unsigned>(bits) > 8) byte[1] = static_cast<uint8_t>(value >> (8 - shift));
  }
  return ones;
}

[[noreturn]] void damaged() { throw InvalidData("found damaged stripes, expected those of a chunk"); }

// The bytes of a value as it is stored.
size_t width_for(uint64_t largest) {
  if (!largest) return 0;
  if (largest <= UINT8_MAX) return 1;
  if (largest <= UINT16_MAX) return 2;
  return largest <= UINT32_MAX ? 4 : 8;
}

// Calls `use` with a zero of the unsigned type of a width over 0.
template <typename Use>
void with_width(size_t width, const Use& use) {
  switch (width) {
    case 1: return use(uint8_t{});
    case 2: return use(uint16_t{});
    case 4: return use(uint32_t{});
    case 8: return use(uint64_t{});
    default: damaged();
  }
}

// Calls `use` with a zero of the type of a column of integers.
template <typename Use>
bool with_integer(Kind kind, const Use& use) {
  switch (kind) {
    case Kind::kInt8: use(int8_t{}); return true;
    case Kind::kInt16: use(int16_t{}); return true;
    case Kind::kInt32: use(int32_t{}); return true;
    case Kind::kInt64:
    case Kind::kTime64: use(int64_t{}); return true;
    default: return false;
  }
}

class Packer {
 public:
  explicit Packer(size_t expected) : buffer_(expected), at_(buffer_.data()) {}

  size_t size() const { return static_cast<size_t>(at_ - buffer_.data()); }

  void pack_stripe(const std::vector<Column>& columns, int64_t begin, int64_t count) {
    const size_t start = size();
    room(kHeader);
    at_ += kHeader;
    for (const Column& column : columns) pack(column, begin, count);
    const size_t used = size() - start;
    if (used > UINT32_MAX) throw InvalidData("found a stripe of over 4 GiB, expected smaller rows");
    store(buffer_.data() + start, static_cast<uint32_t>(used));
    store(buffer_.data() + start + sizeof(uint32_t), static_cast<uint32_t>(count));
  }

  Memory release() { return buffer_.release(size()); }

 private:
  void room(size_t bytes) { at_ = buffer_.room(at_, bytes); }

  void pack(const Column& column, int64_t begin, int64_t count) {
    const bool has_nulls = pack_validity(column, begin, count);
    if (column.kind == Kind::kBool) return pack_bits(column.fixed, column.offset + begin, count);
    if (column.kind == Kind::kFloat) return pack_plain<float>(column, begin, count);
    if (column.kind == Kind::kDouble) return pack_plain<double>(column, begin, count);
    if (with_integer(column.kind, [&](auto zero) { pack_integers<decltype(zero)>(column, begin, count, has_nulls); })) return;
    if (column.kind == Kind::kBytes) return pack_texts(column, begin, count, has_nulls);
    if (column.kind == Kind::kList) return pack_lists(column, begin, count);
    throw UnknownType("");
  }

  bool pack_validity(const Column& column, int64_t begin, int64_t count) {
    room(1 + bytes_of_bits(count));
    uint8_t* const flag = at_++;
    *flag = 0;
    if (!column.validity) return false;
    if (copy_bits(column.validity, column.offset + begin, at_, 0, count) == count) return false;
    *flag = 1;
    at_ += bytes_of_bits(count);
    return true;
  }

  void pack_bits(const uint8_t* bits, int64_t offset, int64_t count) {
    room(bytes_of_bits(count));
    copy_bits(bits, offset, at_, 0, count);
    at_ += bytes_of_bits(count);
  }

  template <typename Value>
  void pack_plain(const Column& column, int64_t begin, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(Value);
    room(bytes);
    if (bytes) std::memcpy(at_, column.fixed + static_cast<size_t>(column.offset + begin) * sizeof(Value), bytes);
    at_ += bytes;
  }

  template <typename Value>
  void pack_integers(const Column& column, int64_t begin, int64_t count, bool has_nulls) {
    const uint8_t* const from = column.fixed + static_cast<size_t>(column.offset + begin) * sizeof(Value);
    Value least = std::numeric_limits<Value>::max(), largest = std::numeric_limits<Value>::min();
    if (has_nulls) {
      for (int64_t place = 0; place < count; ++place) {
        if (!column.is_valid(begin + place)) continue;
        const Value value = load<Value>(from + static_cast<size_t>(place) * sizeof(Value));
        least = std::min(least, value);
        largest = std::max(largest, value);
      }
    } else {
      for (int64_t place = 0; place < count; ++place) {
        const Value value = load<Value>(from + static_cast<size_t>(place) * sizeof(Value));
        least = std::min(least, value);
        largest = std::max(largest, value);
      }
    }
    if (least > largest) least = largest = 0;  // no value is valid
    pack_narrowed(static_cast<int64_t>(least), static_cast<uint64_t>(largest) - static_cast<uint64_t>(least), count, [&](int64_t place) {
      if (has_nulls && !column.is_valid(begin + place)) return static_cast<int64_t>(least);
      return static_cast<int64_t>(load<Value>(from + static_cast<size_t>(place) * sizeof(Value)));
    });
  }

  // Writes the width, the least value, and each value less the least.
  template <typename Values>
  void pack_narrowed(int64_t least, uint64_t largest_difference, int64_t count, const Values& value_of) {
    const size_t width = width_for(largest_difference);
    room(1 + sizeof(int64_t) + static_cast<size_t>(count) * width);
    *at_++ = static_cast<uint8_t>(width);
    store(at_, least);
    at_ += sizeof(int64_t);
    if (!width) return;
    with_width(width, [&](auto zero) {
      using Stored = decltype(zero);
      uint8_t* const to = at_;  // a written byte may alias the member
      for (int64_t place = 0; place < count; ++place) {
        store(to + static_cast<size_t>(place) * sizeof(Stored), static_cast<Stored>(static_cast<uint64_t>(value_of(place)) - static_cast<uint64_t>(least)));
      }
      at_ += static_cast<size_t>(count) * sizeof(Stored);
    });
  }

  // Returns the sum of the lengths.
  int64_t pack_lengths(const Column& column, int64_t begin, int64_t count, bool skips_nulls) {
    int64_t least = std::numeric_limits<int64_t>::max(), largest = 0, sum = 0;
    for (int64_t row = begin; row < begin + count; ++row) {
      if (skips_nulls && !column.is_valid(row)) continue;
      const Range range = column.range<int32_t>(row);
      least = std::min(least, range.end - range.begin);
      largest = std::max(largest, range.end - range.begin);
      sum += range.end - range.begin;
    }
    if (least > largest) least = largest = 0;
    pack_narrowed(least, static_cast<uint64_t>(largest - least), count, [&](int64_t place) {
      if (skips_nulls && !column.is_valid(begin + place)) return least;
      const Range range = column.range<int32_t>(begin + place);
      return range.end - range.begin;
    });
    return sum;
  }

  void pack_texts(const Column& column, int64_t begin, int64_t count, bool has_nulls) {
    const int64_t sum = pack_lengths(column, begin, count, has_nulls);
    if (!sum) return;
    const Range all = {column.range<int32_t>(begin).begin, column.range<int32_t>(begin + count - 1).end};
    if (all.end - all.begin == sum) {  // nulls have no bytes
      room(static_cast<size_t>(sum));
      std::memcpy(at_, column.data + all.begin, static_cast<size_t>(sum));
      at_ += sum;
      return;
    }
    for (int64_t row = begin; row < begin + count; ++row) {
      if (!column.is_valid(row)) continue;
      const Range range = column.range<int32_t>(row);
      const size_t size = static_cast<size_t>(range.end - range.begin);
      room(size);
      copy(at_, column.data + range.begin, size, static_cast<size_t>(column.limits.end - range.begin));
      at_ += size;
    }
  }

  // The list of a null keeps its values, which no reader sees, so that all values are consecutive.
  void pack_lists(const Column& column, int64_t begin, int64_t count) {
    pack_lengths(column, begin, count, false);
    if (!count) return pack(*column.child, 0, 0);
    const int64_t first = column.range<int32_t>(begin).begin, last = column.range<int32_t>(begin + count - 1).end;
    if (last - first > kMostValues) throw UnknownType("");
    pack(*column.child, first, last - first);
  }

  Buffer buffer_;
  uint8_t* at_;
};

// The bytes of one stripe, read one after the other.
class Stripe {
 public:
  Stripe(const uint8_t* begin, size_t size) : at_(begin), end_(begin + size) {}

  const uint8_t* take(size_t size) {
    if (size > static_cast<size_t>(end_ - at_)) damaged();
    return std::exchange(at_, at_ + size);
  }
  template <typename Value>
  Value take_value() {
    return load<Value>(take(sizeof(Value)));
  }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  void check_end() const {
    if (at_ != end_) damaged();
  }

 private:
  const uint8_t *at_, *end_;
};

// Rows of a stripe: `taken` of `count` ones, after the first `skip`.
struct Rows {
  int64_t count, skip, taken;
};

// Narrowed integers of a stripe.
struct Narrowed {
  const uint8_t* values;
  int64_t least;
  size_t width;

  Narrowed(Stripe& stripe, int64_t count) {
    width = stripe.take_value<uint8_t>();
    least = stripe.take_value<int64_t>();
    if (width > 8 || (width && stripe.left() / width < static_cast<size_t>(count))) damaged();
    values = stripe.take(width * static_cast<size_t>(count));
  }

  template <typename Value>
  void widen(const Rows& rows, uint8_t* to) const {
    if (!width) {
      for (int64_t place = 0; place < rows.taken; ++place) store(to + static_cast<size_t>(place) * sizeof(Value), static_cast<Value>(least));
      return;
    }
    with_width(width, [&](auto zero) {
      using Stored = decltype(zero);
      const uint8_t* from = values + static_cast<size_t>(rows.skip) * sizeof(Stored);
      for (int64_t place = 0; place < rows.taken; ++place, from += sizeof(Stored)) {
        const uint64_t value = static_cast<uint64_t>(load<Stored>(from)) + static_cast<uint64_t>(least);
        store(to + static_cast<size_t>(place) * sizeof(Value), static_cast<Value>(value));
      }
    });
  }
};

// A column that grows by the rows of one stripe after the other.
class Growing {
 public:
  Growing(const ArrowSchema& schema, int64_t rows) : schema_(schema), rows_(rows), kind_(kind_of_column(schema)), fixed_(first_size(rows)), texts_(0), validity_(0) {
    fixed_at_ = fixed_.data();
    texts_at_ = texts_.data();
    if (kind_ == Kind::kBytes || kind_ == Kind::kList) {
      store<int32_t>(fixed_at_, 0);
      fixed_at_ += sizeof(int32_t);
    }
    if (kind_ == Kind::kList) child_ = std::make_unique<Growing>(*schema.children[0], 0);
  }

  void add(Stripe& stripe, const Rows& rows) {
    const uint8_t* const valid = add_validity(stripe, rows);
    const size_t taken = static_cast<size_t>(rows.taken);
    if (kind_ == Kind::kBool) {
      const uint8_t* const bits = stripe.take(bytes_of_bits(rows.count));
      room(bytes_of_bits(length_ + rows.taken) - bytes_of_bits(length_));
      copy_bits(bits, rows.skip, fixed_.data(), length_, rows.taken);
      fixed_at_ = fixed_.data() + bytes_of_bits(length_ + rows.taken);
    } else if (kind_ == Kind::kFloat || kind_ == Kind::kDouble) {
      const size_t width = kind_ == Kind::kFloat ? sizeof(float) : sizeof(double);
      const uint8_t* const values = stripe.take(static_cast<size_t>(rows.count) * width);
      room(taken * width);
      if (taken) std::memcpy(fixed_at_, values + static_cast<size_t>(rows.skip) * width, taken * width);
      fixed_at_ += taken * width;
    } else if (!with_integer(kind_, [&](auto zero) {
                 using Value = decltype(zero);
                 const Narrowed values(stripe, rows.count);
                 room(taken * sizeof(Value));
                 values.widen<Value>(rows, fixed_at_);
                 fixed_at_ += taken * sizeof(Value);
               })) {
      const Narrowed lengths(stripe, rows.count);
      if (kind_ == Kind::kList) add_lists(stripe, rows, lengths);
      else add_texts(stripe, rows, lengths, valid);
    }
    length_ += rows.taken;
  }

  Unpacked finish() {
    Unpacked array;
    array.format = schema_.format;
    array.name = schema_.name ? schema_.name : "";
    array.length = length_;
    array.null_count = null_count_;
    array.buffers.resize(kind_ == Kind::kBytes ? 3 : 2);
    if (null_count_) array.buffers[0] = validity_.release(bytes_of_bits(length_));
    array.buffers[1] = fixed_.release(static_cast<size_t>(fixed_at_ - fixed_.data()));
    if (kind_ == Kind::kBytes) array.buffers[2] = texts_.release(static_cast<size_t>(texts_at_ - texts_.data()));
    if (child_) array.child = std::make_unique<Unpacked>(child_->finish());
    return array;
  }

 private:
  static Kind kind_of_column(const ArrowSchema& schema) {
    const Kind kind = schema.dictionary ? Kind::kDictionary : kind_of(schema.format, "");
    if (kind > Kind::kBytes && kind != Kind::kList) throw UnknownType("");
    if (kind == Kind::kList && schema.n_children != 1) damaged();
    return kind;
  }


  void room(size_t bytes) { fixed_at_ = fixed_.room(fixed_at_, bytes); }

  static size_t first_size(int64_t rows) { return std::min(static_cast<size_t>(rows + 1) * sizeof(int64_t), kMostAtFirst); }

  // Returns the bits of the stripe's rows, nullptr if all are valid.
  const uint8_t* add_validity(Stripe& stripe, const Rows& rows) {
    const uint8_t flag = stripe.take_value<uint8_t>();
    if (flag > 1) damaged();
    const uint8_t* const bits = flag ? stripe.take(bytes_of_bits(rows.count)) : nullptr;
    if (!bits && !has_validity_) return nullptr;
    if (!has_validity_) {
      validity_.room(validity_.data(), bytes_of_bits(std::max(rows_, length_)));
      std::memset(validity_.data(), 0xFF, bytes_of_bits(length_));
      has_validity_ = true;
    }
    const size_t used = bytes_of_bits(length_), size = bytes_of_bits(length_ + rows.taken);
    validity_.room(validity_.data() + used, size - used);
    if (bits) {
      null_count_ += rows.taken - copy_bits(bits, rows.skip, validity_.data(), length_, rows.taken);
    } else {
      if (length_ & 7) validity_.data()[used - 1] |= static_cast<uint8_t>(0xFFu << (length_ & 7));
      std::memset(validity_.data() + used, 0xFF, size - used);
    }
    return bits;
  }

  // Values of texts or lists in a stripe: those before the taken rows, those until their end, and all.
  struct Ends {
    size_t before, taken, all;
  };

  // Writes the ends of the taken rows, after `used` values. A null among texts (`valid`) has no bytes.
  Ends add_ends(const Rows& rows, const Narrowed& lengths, const uint8_t* valid, size_t used, size_t most) {
    room(static_cast<size_t>(rows.taken) * sizeof(int32_t));
    if (lengths.width > 4 || lengths.least < 0 || lengths.least > UINT32_MAX) damaged();
    Ends ends = {0, 0, 0};
    if (lengths.width) {
      with_width(lengths.width, [&](auto zero) { ends = put_ends<decltype(zero)>(rows, lengths, valid, used); });
    } else {
      ends = put_ends<void>(rows, lengths, valid, used);
    }
    if (ends.all > most) damaged();
    if (used + ends.taken - ends.before > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw InvalidData("found more than 2 GiB of texts or list values in a column of the rows to read, expected fewer");
    }
    return ends;
  }

  // Lengths are stored as `Stored`, or are equal (void).
  template <typename Stored>
  Ends put_ends(const Rows& rows, const Narrowed& lengths, const uint8_t* valid, size_t used) {
    const size_t least = static_cast<size_t>(lengths.least);
    const auto length_of = [&](int64_t row) {
      size_t length = least;
      if constexpr (!std::is_void_v<Stored>) length += load<Stored>(lengths.values + static_cast<size_t>(row) * sizeof(Stored));
      return valid ? length & (size_t{0} - bit_of(valid, row)) : length;
    };
    const int64_t last = rows.skip + rows.taken;
    Ends ends = {0, 0, 0};
    for (int64_t row = 0; row < rows.skip; ++row) ends.before += length_of(row);
    size_t end = used;
    for (int64_t row = rows.skip; row < last; ++row, fixed_at_ += sizeof(int32_t)) {
      end += length_of(row);
      store(fixed_at_, static_cast<int32_t>(end));
    }
    ends.all = ends.taken = ends.before + (end - used);
    for (int64_t row = last; row < rows.count; ++row) ends.all += length_of(row);
    return ends;
  }

  void add_texts(Stripe& stripe, const Rows& rows, const Narrowed& lengths, const uint8_t* valid) {
    const Ends ends = add_ends(rows, lengths, valid, static_cast<size_t>(texts_at_ - texts_.data()), stripe.left());
    const uint8_t* const bytes = stripe.take(ends.all);
    const size_t size = ends.taken - ends.before;
    texts_at_ = texts_.room(texts_at_, size);
    if (size) std::memcpy(texts_at_, bytes + ends.before, size);
    texts_at_ += size;
  }

  void add_lists(Stripe& stripe, const Rows& rows, const Narrowed& lengths) {
    const Ends ends = add_ends(rows, lengths, nullptr, static_cast<size_t>(child_->length_), kMostValues);
    child_->add(stripe, {static_cast<int64_t>(ends.all), static_cast<int64_t>(ends.before), static_cast<int64_t>(ends.taken - ends.before)});
  }

  const ArrowSchema& schema_;
  int64_t rows_, length_ = 0, null_count_ = 0;
  Kind kind_;
  bool has_validity_ = false;
  Buffer fixed_, texts_, validity_;
  uint8_t *fixed_at_, *texts_at_;
  std::unique_ptr<Growing> child_;
};

// A stripe with wanted rows.
struct Opened {
  Stripe stripe;
  Rows rows;
};

void open_piece(const Piece& piece, std::vector<Opened>& opened) {
  const uint8_t* at = piece.data;
  size_t left = piece.size;
  int64_t skip = piece.skip, wanted = piece.count;
  while (wanted > 0) {
    if (left < kHeader) damaged();
    const size_t size = load<uint32_t>(at);
    const int64_t rows = load<uint32_t>(at + sizeof(uint32_t));
    if (size < kHeader || size > left || rows > kMostValues) damaged();
    const int64_t skipped = std::min(skip, rows), taken = std::min(wanted, rows - skipped);
    if (taken) opened.push_back({Stripe(at + kHeader, size - kHeader), {rows, skipped, taken}});
    skip -= skipped;
    wanted -= taken;
    at += size;
    left -= size;
  }
}

}  // namespace

Packed pack_stripes(const std::vector<Column>& columns, int64_t num_rows, int64_t rows_per_stripe) {
  if (rows_per_stripe < 1) throw InvalidData("found stripes of " + std::to_string(rows_per_stripe) + " rows, expected 1 or more");
  if (std::min(num_rows, rows_per_stripe) > kMostValues) throw UnknownType("");
  Packed packed;
  Packer packer(static_cast<size_t>(num_rows) * columns.size() * sizeof(uint32_t));
  packed.count = (num_rows + rows_per_stripe - 1) / rows_per_stripe;
  const size_t ends_size = static_cast<size_t>(packed.count) * sizeof(int64_t);
  Buffer ends(ends_size);
  for (int64_t stripe = 0; stripe < packed.count; ++stripe) {
    const int64_t begin = stripe * rows_per_stripe;
    packer.pack_stripe(columns, begin, std::min(rows_per_stripe, num_rows - begin));
    store(ends.data() + static_cast<size_t>(stripe) * sizeof(int64_t), static_cast<int64_t>(packer.size()));
  }
  packed.size = packer.size();
  packed.data = packer.release();
  packed.ends = ends.release(ends_size);
  return packed;
}

Unpacked::~Unpacked() {
  for (const Memory& memory : buffers) give_back(memory);
}

std::vector<Unpacked> unpack_stripes(const ArrowSchema& schema, const std::vector<Piece>& pieces) {
  int64_t rows = 0;
  for (const Piece& piece : pieces) {
    if (piece.skip < 0 || piece.count < 0 || piece.count > std::numeric_limits<int32_t>::max()) damaged();
    rows += piece.count;
  }
  std::deque<Growing> columns;  // which do not move
  for (int64_t place = 0; place < schema.n_children; ++place) columns.emplace_back(*schema.children[place], rows);
  std::vector<Opened> opened;
  for (const Piece& piece : pieces) open_piece(piece, opened);
  // Column by column, so that what is known of one is at hand; but few bytes of it at a time, so that all stay in the cache.
  const size_t share = opened.empty() ? 0 : opened[0].stripe.left() / (columns.size() + 1);
  const size_t step = std::max<size_t>(kBytesAtATime / (share + 1), 1);
  for (size_t first = 0; first < opened.size(); first += step) {
    const auto begin = opened.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(step, opened.size() - first));
    for (Growing& column : columns) {
      for (auto one = begin; one != end; ++one) column.add(one->stripe, one->rows);
    }
    for (auto one = begin; one != end; ++one) one->stripe.check_end();
  }
  std::vector<Unpacked> arrays;
  for (Growing& column : columns) arrays.push_back(column.finish());
  return arrays;
}

}  // namespace native
