// The format: tensorflow/core/example/{example,feature}.proto, and https://protobuf.dev/programming-guides/encoding/.
//
// message Example         { Features features = 1; }
// message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
// message Features        { map<string, Feature> feature = 1; }
// message FeatureLists    { map<string, FeatureList> feature_list = 1; }
// message FeatureList     { repeated Feature feature = 1; }
// message Feature         { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
// message BytesList       { repeated bytes value = 1; }
// message FloatList       { repeated float value = 1 [packed = true]; }
// message Int64List       { repeated int64 value = 1 [packed = true]; }
//
// Each of these fields is length-delimited: a tag, the length as a varint, and the bytes. A map is a
// repeated message of two fields, key = 1 and value = 2. So one value's entry is, with ‹…› for lengths,
//
//   0A ‹entry›  0A ‹key› key  12 ‹feature›  kind ‹list›  0A ‹value› value
#include "example.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bytes.h"

namespace native {
namespace {

constexpr uint8_t kField1 = 0x0A, kField2 = 0x12;                             // tags of length-delimited fields 1 and 2
constexpr uint8_t kBytesList = 0x0A, kFloatList = 0x12, kInt64List = 0x1A;    // Feature's fields 1, 2 and 3
constexpr size_t kMostLengthBytes = 5;                                        // of a length below 2 GiB
constexpr int64_t kMostRecordBytes = 0x7FFFFFFF;                              // protobuf's limit

[[noreturn]] void too_long(const std::string& what) {
  throw InvalidData(what + ": found a record of over 2 GiB, expected at most 2,147,483,647 bytes, which is what protobuf reads");
}

// Adds lengths; throws above a record's limit.
int64_t plus(int64_t total, int64_t more, const Feature& feature) {
  if (more > kMostRecordBytes || (total += more) > kMostRecordBytes) too_long("feature '" + feature.name + "'");
  return total;
}

// The size of a length-delimited field: tag, length, bytes.
int64_t field_size(int64_t size) { return 1 + static_cast<int64_t>(varint_size(static_cast<uint64_t>(size))) + size; }

uint8_t* put_field(uint8_t* at, uint8_t tag, int64_t size) {
  *at = tag;
  return put_varint(at + 1, static_cast<uint64_t>(size));
}

uint8_t kind_of_values(const Column& column, const std::string& name) {
  switch (column.kind) {
    case Kind::kInt64:
      return kInt64List;
    case Kind::kFloat:
      return kFloatList;
    case Kind::kBytes:
    case Kind::kLargeBytes:
      return kBytesList;
    case Kind::kList:
    case Kind::kLargeList:
    case Kind::kFixedSizeList:
    case Kind::kDictionary:
      return kind_of_values(*column.child, name);
    default:
      throw UnknownType(name);
  }
}

// ---- One value, as a number of bytes. ----

int64_t value_size(const Column& column, int64_t row) {
  switch (column.kind) {
    case Kind::kInt64:
      return static_cast<int64_t>(varint_size(column.value<uint64_t>(row)));
    case Kind::kFloat:
      return sizeof(float);
    default: {
      const Range range = column.bytes_range(row);
      return range.end - range.begin;
    }
  }
}

uint8_t* put_value(uint8_t* at, const Column& column, int64_t row, int64_t size) {
  switch (column.kind) {
    case Kind::kInt64:
      return put_varint(at, column.value<uint64_t>(row));
    case Kind::kFloat:
      store(at, column.value<uint32_t>(row));
      return at + sizeof(float);
    default: {
      const int64_t begin = column.bytes_range(row).begin;
      copy(at, column.data + begin, static_cast<size_t>(size), static_cast<size_t>(column.limits.end - begin));
      return at + size;
    }
  }
}

// ---- Entries of tf.Example's map. ----

// Writes an entry up to its list message, which has `list` bytes: 0A ‹entry› 0A ‹key› key 12 ‹feature› kind ‹list›.
uint8_t* put_entry(Buffer& out, uint8_t* at, const Feature& feature, int64_t list) {
  const int64_t value = field_size(list);
  const int64_t entry = plus(static_cast<int64_t>(feature.key.size()) - 1, field_size(value), feature);
  at = out.room(at, static_cast<size_t>(field_size(entry)));
  at = put_field(at, kField1, entry);
  std::memcpy(at, feature.key.data(), feature.key.size() - 1);
  at += feature.key.size() - 1;
  at = put_field(at, kField2, value);
  return put_field(at, feature.kind, list);
}

// What a record reads of a feature, in 64 bytes: a wide table has thousands of features.
struct Source {
  const uint8_t* entry;  // of the feature, and eight bytes that may be read
  uint32_t entry_size, short_sizes;
  const Feature* feature;
  const Column* column;  // of the feature, or a copy in the order of the records
  const uint8_t *validity, *fixed;
  int64_t offset;
  Kind kind;
  bool is_gathered;

  void read(const Column& of) {
    column = &of;
    validity = of.validity;
    fixed = of.fixed;
    offset = of.offset;
    kind = of.kind;
  }
  template <typename Value>
  Value value(int64_t row) const {
    return load<Value>(fixed + static_cast<size_t>(offset + row) * sizeof(Value));
  }
};

// The same up to one value of `size` bytes, 0A ‹value› included.
__attribute__((noinline)) uint8_t* put_long_scalar_entry(Buffer& out, uint8_t* at, const Feature& feature, size_t size) {
  at = put_entry(out, at, feature, field_size(plus(0, static_cast<int64_t>(size), feature)));
  return put_field(at, kField1, static_cast<int64_t>(size));
}

inline uint8_t* put_scalar_entry(Buffer& out, uint8_t* at, const Source& source, size_t size) {
  if (size >= source.short_sizes) return put_long_scalar_entry(out, at, *source.feature, size);
  at = out.room(at, source.entry_size + size);
  uint8_t* const end = at + source.entry_size;
  const uint8_t* from = source.entry;
  for (uint8_t* to = at; to < end; to += sizeof(uint64_t), from += sizeof(uint64_t)) store(to, load<uint64_t>(from));
  for (uint8_t* length : {at + 1, end - 5, end - 3, end - 1}) *length = static_cast<uint8_t>(*length + size);
  return end;
}

uint8_t* put_scalar(Buffer& out, uint8_t* at, const Source& source, const Column& column, int64_t row) {
  const int64_t size = value_size(column, row);
  at = put_scalar_entry(out, at, source, static_cast<size_t>(size));
  return put_value(at, column, row, size);
}

Place value_in_list(const Column& values, int64_t row) {
  const Place place = place_of(&values, row);
  if (!place.column) throw InvalidData("found a null inside a list, which tf.Example cannot hold");
  return place;
}

// The size of a list's values in its list message. Numbers are packed, 0A ‹numbers› number number …, but
// no numbers have no bytes; each text is a field: 0A ‹value› value 0A ‹value› value ….
struct ListSize {
  int64_t values;   // of the packed numbers, or of the texts' fields
  int64_t message;  // of all bytes
};

ListSize list_size(const Feature& feature, const Column& column, int64_t row) {
  const Range range = column.list_range(row);
  const bool packed = feature.kind != kBytesList;
  int64_t size = 0;
  for (int64_t value = range.begin; value < range.end; ++value) {
    const Place place = value_in_list(*column.child, value);
    const int64_t bytes = value_size(*place.column, place.row);
    size = plus(size, packed ? bytes : field_size(plus(0, bytes, feature)), feature);
  }
  return {size, packed && size ? field_size(size) : size};
}

// Writes the values of a list into its list message. There is room.
uint8_t* put_values(uint8_t* at, const Feature& feature, const Column& column, int64_t row, const ListSize& size) {
  const Range range = column.list_range(row);
  const bool packed = feature.kind != kBytesList;
  if (packed && size.values) at = put_field(at, kField1, size.values);
  for (int64_t value = range.begin; value < range.end; ++value) {
    const Place place = value_in_list(*column.child, value);
    const int64_t bytes = value_size(*place.column, place.row);
    if (!packed) at = put_field(at, kField1, bytes);
    at = put_value(at, *place.column, place.row, bytes);
  }
  return at;
}

uint8_t* put_list(Buffer& out, uint8_t* at, const Feature& feature, const Column& column, int64_t row) {
  const ListSize size = list_size(feature, column, row);
  return put_values(put_entry(out, at, feature, size.message), feature, column, row, size);
}

// ---- Entries of tf.SequenceExample's map of feature lists. ----

// The size of one step's Feature, kind ‹list› 0A ‹value› value; a null step has none of it. A step that is
// a list has its values, maybe none, in the list message.
int64_t step_size(const Feature& feature, const Place& step) {
  if (!step.column) return 0;
  if (step.column->is_list()) return field_size(list_size(feature, *step.column, step.row).message);
  return field_size(field_size(plus(0, value_size(*step.column, step.row), feature)));
}

// Writes an entry of a feature list: 0A ‹entry› 0A ‹key› key 12 ‹feature list›, and for each step
// 0A ‹feature› kind ‹list› 0A ‹value› value.
uint8_t* put_feature_list(Buffer& out, uint8_t* at, const Feature& feature, const Column& column, int64_t row) {
  const Range range = column.list_range(row);
  int64_t size = 0;
  for (int64_t value = range.begin; value < range.end; ++value) {
    size = plus(size, field_size(step_size(feature, place_of(column.child.get(), value))), feature);
  }
  const int64_t entry = plus(static_cast<int64_t>(feature.key.size()) - 1, field_size(size), feature);
  at = out.room(at, static_cast<size_t>(field_size(entry)));
  at = put_field(at, kField1, entry);
  std::memcpy(at, feature.key.data(), feature.key.size() - 1);
  at = put_field(at + feature.key.size() - 1, kField2, size);
  for (int64_t value = range.begin; value < range.end; ++value) {
    const Place step = place_of(column.child.get(), value);
    at = put_field(at, kField1, step_size(feature, step));
    if (!step.column) continue;
    if (step.column->is_list()) {
      const ListSize list = list_size(feature, *step.column, step.row);
      at = put_field(at, feature.kind, list.message);
      at = put_values(at, feature, *step.column, step.row, list);
      continue;
    }
    const int64_t bytes = value_size(*step.column, step.row);
    at = put_field(at, feature.kind, field_size(bytes));
    at = put_field(at, kField1, bytes);
    at = put_value(at, *step.column, step.row, bytes);
  }
  return at;
}

// ---- Records. ----

// Writes a row's entry of one feature, if it has one.
template <typename Offset>
inline uint8_t* put_text(Buffer& out, uint8_t* at, const Source& source, int64_t row) {
  const Column& column = *source.column;
  const Range range = column.range<Offset>(row);
  const size_t size = static_cast<size_t>(range.end - range.begin);
  at = put_scalar_entry(out, at, source, size);
  copy(at, column.data + range.begin, size, static_cast<size_t>(column.limits.end - range.begin));
  return at + size;
}

inline uint8_t* put_feature(Buffer& out, uint8_t* at, const Source& source, int64_t row) {
  if (source.validity && !bit_of(source.validity, source.offset + row)) return at;
  switch (source.kind) {
    case Kind::kInt64: {
      const uint64_t value = source.value<uint64_t>(row);
      const size_t size = varint_size(value);
      at = put_scalar_entry(out, at, source, size);
      return put_varint(at, value, size);
    }
    case Kind::kFloat:
      at = put_scalar_entry(out, at, source, sizeof(float));
      store(at, source.value<uint32_t>(row));
      return at + sizeof(float);
    case Kind::kBytes:
      return put_text<int32_t>(out, at, source, row);
    case Kind::kLargeBytes:
      return put_text<int64_t>(out, at, source, row);
    default: {
      const Feature& feature = *source.feature;
      const Place place = place_of(source.column, row);
      if (!place.column) return at;
      if (feature.is_feature_list) return put_feature_list(out, at, feature, *place.column, place.row);
      if (place.column->is_list()) return put_list(out, at, feature, *place.column, place.row);
      return put_scalar(out, at, source, *place.column, place.row);
    }
  }
}

// The features as records read them.
class Sources {
 public:
  Sources(const std::vector<Feature>& features, const Selection& selection) : gathered_(selection.rows ? selection.count : 0, features.size()) {
    for (const Feature& feature : features) entries_ += feature.entry;
    entries_.append(sizeof(uint64_t), 0);
    size_t entry = 0;
    for (const Feature& feature : features) {
      Source source = {};
      source.entry = reinterpret_cast<const uint8_t*>(entries_.data()) + entry;
      source.entry_size = static_cast<uint32_t>(feature.entry.size());
      source.short_sizes = static_cast<uint32_t>(feature.short_sizes);
      source.feature = &feature;
      source.read(feature.column);
      source.is_gathered = selection.rows && Gathered::can_gather(feature.column);
      sources_.push_back(source);
      entry += feature.entry.size();
    }
  }

  int64_t rows_at_a_time() const { return gathered_.rows_at_a_time(); }

  // Copies the values of the next records.
  void gather(const Selection& selection) {
    gathered_.select(selection);
    for (const Source& source : sources_) {
      if (source.is_gathered) gathered_.gather(source.feature->column);
    }
    copies_.clear();
    copies_.reserve(sources_.size());
    for (Source& source : sources_) {
      if (!source.is_gathered) continue;
      copies_.push_back(gathered_.copy_of(copies_.size()));
      source.read(copies_.back());
    }
  }

  std::vector<Source>::const_iterator begin() const { return sources_.begin(); }
  std::vector<Source>::const_iterator end() const { return sources_.end(); }

 private:
  std::string entries_;
  std::vector<Source> sources_;
  std::vector<Column> copies_;
  Gathered gathered_;
};

// One of a record's messages: a tag, a length, and the entries of features. The length is known only
// after them; if it needs another number of bytes than the row before, the entries move.
class Map {
 public:
  explicit Map(uint8_t tag) : tag_(tag) {}

  void add(const Source& source) { sources_.push_back(&source); }
  bool is_empty() const { return sources_.empty(); }

  // Writes the message of a batch's row, which is number `place` of the gathered ones.
  uint8_t* put(Buffer& out, uint8_t* at, int64_t row, int64_t place) {
    at = out.room(at, 1 + kMostLengthBytes);
    const size_t start = static_cast<size_t>(at - out.data());
    at += 1 + length_bytes_;
    for (const Source* source : sources_) {
      at = put_feature(out, at, *source, source->is_gathered ? place : row);
    }
    size_t length = static_cast<size_t>(at - out.data()) - start - 1 - length_bytes_;
    if (varint_size(length) != length_bytes_) at = move_entries(out, at, start, length);
    uint8_t* before = out.data() + start;
    *before++ = tag_;
    for (; length >= 1u << 7; length >>= 7) *before++ = static_cast<uint8_t>(length | 0x80);
    *before = static_cast<uint8_t>(length);
    return at;
  }

 private:
  uint8_t* move_entries(Buffer& out, uint8_t* at, size_t start, size_t length) {
    if (length > static_cast<size_t>(kMostRecordBytes)) too_long("a row");
    at = out.room(at, kMostLengthBytes);
    const size_t needed = varint_size(length);
    uint8_t* entries = out.data() + start + 1;
    std::memmove(entries + needed, entries + length_bytes_, length);
    length_bytes_ = needed;
    return entries + needed + length;
  }

  uint8_t tag_;
  size_t length_bytes_ = 1;
  std::vector<const Source*> sources_;
};

// Estimates the records' bytes from the number of values alone, which may be absent or long.
size_t first_guess(const std::vector<Feature>& features, int64_t rows) {
  size_t row = 32;
  for (const Feature& feature : features) row += feature.entry.size() + 8;
  return std::min(row * static_cast<size_t>(rows), kMostAtFirst);
}

}  // namespace

Feature::Feature(std::string name_, Column column_, bool is_feature_list_)
    : name(std::move(name_)), column(std::move(column_)), is_feature_list(is_feature_list_), kind(kind_of_values(column, name)) {
  if (column.depth() > (is_feature_list ? 2 : 1)) throw UnknownType(name);
  uint8_t bytes[16];
  uint8_t* end = put_field(bytes, kField1, static_cast<int64_t>(name.size()));
  key.assign(reinterpret_cast<char*>(bytes), static_cast<size_t>(end - bytes));
  key += name;
  key += static_cast<char>(kField2);
  // 0A ‹entry› key ‹feature› kind ‹list› 0A ‹value›, where the value has no bytes yet.
  entry = {static_cast<char>(kField1), 0};
  entry += key + std::string({4, static_cast<char>(kind), 2, static_cast<char>(kField1), 0});
  const size_t size = entry.size() - 2;
  entry[1] = static_cast<char>(size);
  short_sizes = size < 128 ? 128 - size : 0;
}

Records serialize(const std::vector<Feature>& features, int64_t num_rows, const Selection& selection, bool is_sequence, bool framed) {
  check_rows(selection, num_rows);
  const int64_t count = selection.count;
  Sources sources(features, selection);
  Map context(kField1), feature_lists(kField2);
  for (const Source& source : sources) (source.feature->is_feature_list ? feature_lists : context).add(source);
  Buffer out(first_guess(features, count)), offsets((static_cast<size_t>(count) + 1) * sizeof(int64_t));
  uint8_t* at = out.data();
  store<int64_t>(offsets.data(), 0);
  for (int64_t place = 0; place < count; ++place) {
    const int64_t row = selection[place], gathered_place = selection.rows ? place % sources.rows_at_a_time() : place;
    if (selection.rows && !gathered_place) sources.gather({selection.rows + place, std::min(sources.rows_at_a_time(), count - place)});
    if (gathered_place % kPrefetchedRows == 0) {
      for (const Source& source : sources) {
        if (source.is_gathered || !selection.rows) prefetch(*source.column, gathered_place + kPrefetchedRows);
      }
    }
    if (framed) at = out.room(at, kHeaderBytes) + kHeaderBytes;
    const size_t start = static_cast<size_t>(at - out.data());
    if (is_sequence || !context.is_empty()) at = context.put(out, at, row, gathered_place);
    if (is_sequence) at = feature_lists.put(out, at, row, gathered_place);
    const size_t length = static_cast<size_t>(at - out.data()) - start;
    if (length > static_cast<size_t>(kMostRecordBytes)) too_long("row " + std::to_string(row));
    if (framed) {
      at = out.room(at, kFooterBytes);
      uint8_t* data = out.data() + start;
      put_header(data - kHeaderBytes, length);
      put_footer(data, length);
      at += kFooterBytes;
    }
    store<int64_t>(offsets.data() + (place + 1) * sizeof(int64_t), at - out.data());
  }
  return {out.release(static_cast<size_t>(at - out.data())), offsets.release((static_cast<size_t>(count) + 1) * sizeof(int64_t))};
}

}  // namespace native
