#include "column.h"

#include <cstdlib>
#include <limits>

namespace native {
namespace {

constexpr int kMaxDepth = 6;   // dictionaries of lists, twice, and of values
constexpr int kMostLists = 2;  // the steps of a feature list, and their values

// The target of absent buffers, so that no copy reads from nullptr.
constexpr uint8_t kNoBytes = 0;

IndexKind index_kind_of(const char* format, const std::string& name) {
  switch (format && format[0] && !format[1] ? format[0] : ' ') {
    case 'c': return IndexKind::kInt8;
    case 'C': return IndexKind::kUint8;
    case 's': return IndexKind::kInt16;
    case 'S': return IndexKind::kUint16;
    case 'i': return IndexKind::kInt32;
    case 'I': return IndexKind::kUint32;
    case 'l': return IndexKind::kInt64;
    case 'L': return IndexKind::kUint64;
    default: throw UnknownType(name);
  }
}

[[noreturn]] void invalid(const std::string& name, const std::string& found, const std::string& expected) {
  throw InvalidData("column '" + name + "': found " + found + ", expected " + expected);
}

const uint8_t* buffer(const ArrowArray& array, int64_t number, const std::string& name) {
  if (array.n_buffers <= number) {
    invalid(name, std::to_string(array.n_buffers) + " buffers", "at least " + std::to_string(number + 1));
  }
  return static_cast<const uint8_t*>(array.buffers[number]);
}

template <typename Offset>
Range limits_of(const Column& column) {
  return {column.value<Offset>(0), column.value<Offset>(column.length)};
}

void check_limits(const Column& column, int64_t size, const std::string& name) {
  const Range limits = column.limits;
  if (limits.begin < 0 || limits.begin > limits.end || limits.end > size) {
    invalid(name, "offsets from " + std::to_string(limits.begin) + " to " + std::to_string(limits.end),
            "offsets that grow from 0, into the values");
  }
}

Column read(const ArrowSchema& schema, const ArrowArray& array, const std::string& name, int64_t first, int64_t length, int depth);

std::unique_ptr<Column> read_child(const ArrowSchema* schema, const ArrowArray* array, const std::string& name, int depth) {
  if (!schema || !array) invalid(name, "no values", "an array of values inside it");
  return std::make_unique<Column>(read(*schema, *array, name, 0, array->length, depth + 1));
}

void read_list(Column& column, const ArrowSchema& schema, const ArrowArray& array, const std::string& name, int depth) {
  if (schema.n_children != 1 || array.n_children != 1) invalid(name, "a list without one child", "its values");
  column.child = read_child(schema.children[0], array.children[0], name, depth);
  if (column.child->depth() >= kMostLists) throw UnknownType(name);
  if (column.kind == Kind::kFixedSizeList) {
    column.list_size = std::strtoll(schema.format + 3, nullptr, 10);
    const int64_t lists = column.offset + column.length;
    if (column.list_size < 0 || (column.list_size && lists > column.child->length / column.list_size)) {
      invalid(name, std::to_string(column.child->length) + " values in " + std::to_string(lists) + " lists of fixed size",
              std::to_string(column.list_size) + " values in each");
    }
    return;
  }
  if (!column.length) return;
  column.limits = column.kind == Kind::kList ? limits_of<int32_t>(column) : limits_of<int64_t>(column);
  check_limits(column, column.child->length, name);
}

Column read(const ArrowSchema& schema, const ArrowArray& array, const std::string& name, int64_t first, int64_t length, int depth) {
  if (depth > kMaxDepth) throw UnknownType(name);
  if (array.length < 0 || array.offset < 0 || first < 0 || length < 0 || first > array.length - length) {
    invalid(name, std::to_string(array.length) + " values", std::to_string(length));
  }
  Column column;
  column.kind = schema.dictionary ? Kind::kDictionary : kind_of(schema.format, name);
  column.offset = array.offset + first;
  column.length = length;
  column.validity = array.null_count == 0 ? nullptr : buffer(array, 0, name);
  if (column.kind != Kind::kFixedSizeList) {
    column.fixed = buffer(array, 1, name);
    if (!column.fixed && length) invalid(name, "no buffer", "one of its values or offsets");
  }
  if (column.kind == Kind::kDictionary) {
    column.index_kind = index_kind_of(schema.format, name);
    column.child = read_child(schema.dictionary, array.dictionary, name, depth);
  } else if (column.is_list()) {
    read_list(column, schema, array, name, depth);
  } else if (column.kind == Kind::kBytes || column.kind == Kind::kLargeBytes) {
    column.data = buffer(array, 2, name);
    if (length) {
      column.limits = column.kind == Kind::kBytes ? limits_of<int32_t>(column) : limits_of<int64_t>(column);
      check_limits(column, column.data ? std::numeric_limits<int64_t>::max() : 0, name);
    }
    if (!column.data) column.data = &kNoBytes;
  }
  return column;
}

}  // namespace

Kind kind_of(const char* format, const std::string& name) {
  const std::string text = format ? format : "";
  if (text == "b") return Kind::kBool;
  if (text == "c" || text == "C") return Kind::kInt8;
  if (text == "s" || text == "S") return Kind::kInt16;
  if (text == "i" || text == "I" || text == "tdD" || text == "tts" || text == "ttm") return Kind::kInt32;
  if (text == "l") return Kind::kInt64;
  if (text == "L" || text == "tdm" || text == "ttu" || text == "ttn") return Kind::kTime64;
  if (text.rfind("ts", 0) == 0 || text.rfind("tD", 0) == 0) return Kind::kTime64;
  if (text == "f") return Kind::kFloat;
  if (text == "g") return Kind::kDouble;
  if (text == "u" || text == "z") return Kind::kBytes;
  if (text == "U" || text == "Z") return Kind::kLargeBytes;
  if (text == "+l") return Kind::kList;
  if (text == "+L") return Kind::kLargeList;
  if (text.rfind("+w:", 0) == 0) return Kind::kFixedSizeList;
  throw UnknownType(name);
}

Column read_column(const ArrowSchema& schema, const ArrowArray& array, const std::string& name, int64_t first, int64_t length) {
  return read(schema, array, name, first, length, 0);
}

int Column::depth() const { return child ? (is_list() ? 1 : 0) + child->depth() : 0; }

int64_t Column::index(int64_t row) const {
  int64_t found = -1;
  switch (index_kind) {
    case IndexKind::kInt8: found = value<int8_t>(row); break;
    case IndexKind::kUint8: found = value<uint8_t>(row); break;
    case IndexKind::kInt16: found = value<int16_t>(row); break;
    case IndexKind::kUint16: found = value<uint16_t>(row); break;
    case IndexKind::kInt32: found = value<int32_t>(row); break;
    case IndexKind::kUint32: found = value<uint32_t>(row); break;
    case IndexKind::kInt64: found = value<int64_t>(row); break;
    case IndexKind::kUint64: found = static_cast<int64_t>(value<uint64_t>(row)); break;
  }
  if (found < 0 || found >= child->length) {
    throw InvalidData("found index " + std::to_string(found) + " in row " + std::to_string(row) + ", expected one into a dictionary of " +
                      std::to_string(child->length) + " values");
  }
  return found;
}

void Column::bad_offsets(int64_t row, Range found) const {
  throw InvalidData("found offsets " + std::to_string(found.begin) + " and " + std::to_string(found.end) + " in row " +
                    std::to_string(row) + ", expected them in order, from " + std::to_string(limits.begin) + " to " +
                    std::to_string(limits.end));
}

}  // namespace native
