// Feeds the kernels with arrays that bytes make up, sound ones and hostile ones, with text, with messages, and with compressed blocks; to be built with AddressSanitizer and UBSan.
//
// Every buffer is a piece of memory of exactly its size, so that one byte read beyond is seen. Arrow's own check, which Python runs before the
// kernels, holds buffers against the first and the last offset: so these two are kept sound here, and everything else may be anything.
//
// With clang's -fsanitize=fuzzer -DLIBFUZZER it is a libFuzzer target; without, it has a main that takes seconds and a seed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../../beam_pipelines/core/_native/counts.h"
#include "../../../beam_pipelines/core/_native/csv.h"
#include "../../../beam_pipelines/core/_native/deflate.h"
#include "../../../beam_pipelines/core/_native/example.h"
#include "../../../beam_pipelines/core/_native/example_parser.h"
#include "../../../beam_pipelines/core/_native/farmhash.h"
#include "../../../beam_pipelines/core/_native/hash.h"
#include "../../../beam_pipelines/core/_native/inflate.h"
#include "../../../beam_pipelines/core/_native/lookup.h"
#include "../../../beam_pipelines/core/_native/quotes.h"
#include "../../../beam_pipelines/core/_native/repeats.h"
#include "../../../beam_pipelines/core/_native/stripes.h"
#include "../../../beam_pipelines/core/_native/take.h"
#include "../../../beam_pipelines/core/_native/tfrecord.h"

namespace {

using native::Column;

// Decisions, taken from bytes; zeros when there are no more.
struct Decisions {
  const uint8_t* data;
  size_t size;

  uint64_t next(uint64_t below) {
    uint64_t value = 0;
    for (int byte = 0; byte < (below > 256 ? 8 : 1) && size; ++byte, ++data, --size) value = value << 8 | *data;
    return value % below;
  }
  uint64_t any() { return next(UINT64_MAX); }
};

// An array of the C data interface, with all that it owns.
struct Array {
  std::string format;
  ArrowSchema schema{};
  ArrowArray array{};
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  std::vector<const void*> buffers;
  std::unique_ptr<Array> child;
  ArrowSchema* schemas[1];
  ArrowArray* arrays[1];

  // Adds a buffer of so many bytes. Each comes from the decisions or is zero.
  uint8_t* add(size_t size, Decisions& decisions) {
    memory.emplace_back(new uint8_t[size]());
    for (size_t at = 0; at < size && decisions.size; ++at) memory.back()[at] = static_cast<uint8_t>(decisions.next(256));
    buffers.push_back(memory.back().get());
    return memory.back().get();
  }
};

template <typename Offset>
void add_offsets(Array& made, int64_t slots, int64_t values, Decisions& decisions) {
  Offset* offsets = reinterpret_cast<Offset*>(made.add(static_cast<size_t>(slots + 1) * sizeof(Offset), decisions));
  const bool hostile = decisions.next(4) == 0;
  for (int64_t slot = 0; slot <= slots && !hostile; ++slot) offsets[slot] = static_cast<Offset>(values * slot / (slots ? slots : 1));
  if (!hostile) return;
  for (int64_t slot = 0; slot <= slots; ++slot) {
    if (slot == made.array.offset) offsets[slot] = 0;
    if (slot == made.array.offset + made.array.length) offsets[slot] = static_cast<Offset>(values);
  }
}

std::unique_ptr<Array> make(Decisions& decisions, int64_t length, int depth) {
  static const char* const kFormats[] = {"l", "f", "u", "Z", "b", "g", "tdD", "ttu", "tsu:", "c", "+l", "+L", "+w:2", "dictionary", "+s", ""};
  static const char* const kIndices[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
  static const size_t kWidths[] = {1, 1, 2, 2, 4, 4, 8, 8};
  auto made = std::make_unique<Array>();
  made->format = kFormats[decisions.next(depth < 3 ? 16 : 10)];
  made->array.length = length;
  made->array.offset = static_cast<int64_t>(decisions.next(4));
  made->array.null_count = static_cast<int64_t>(decisions.next(2)) - 1;
  const int64_t slots = made->array.offset + length;
  const size_t index = decisions.next(8);
  if (made->array.null_count) {
    made->add(static_cast<size_t>(slots + 7) / 8, decisions);
  } else {
    made->buffers.push_back(nullptr);
  }
  if (made->format == "dictionary") {
    made->format = kIndices[index];
    uint8_t* indices = made->add(static_cast<size_t>(slots) * kWidths[index], decisions);
    if (decisions.next(4)) std::memset(indices, 0, static_cast<size_t>(slots) * kWidths[index]);
    made->child = make(decisions, static_cast<int64_t>(decisions.next(4)), depth + 1);
    made->schema.dictionary = &made->child->schema;
    made->array.dictionary = &made->child->array;
  } else if (made->format[0] == '+') {
    const bool fixed = made->format == "+w:2";
    const int64_t values = fixed ? 2 * slots : static_cast<int64_t>(decisions.next(9));
    if (made->format == "+l") add_offsets<int32_t>(*made, slots, values, decisions);
    if (made->format == "+L") add_offsets<int64_t>(*made, slots, values, decisions);
    made->child = make(decisions, values, depth + 1);
    made->schemas[0] = &made->child->schema;
    made->arrays[0] = &made->child->array;
    made->schema.children = made->schemas;
    made->array.children = made->arrays;
    made->schema.n_children = made->array.n_children = 1;
  } else if (made->format == "u" || made->format == "Z") {
    const int64_t values = static_cast<int64_t>(decisions.next(200));
    if (made->format == "u") add_offsets<int32_t>(*made, slots, values, decisions);
    if (made->format == "Z") add_offsets<int64_t>(*made, slots, values, decisions);
    made->add(static_cast<size_t>(values), decisions);
  } else {
    made->add(static_cast<size_t>(slots) * 8, decisions);
  }
  made->schema.format = made->format.c_str();
  made->array.buffers = made->buffers.data();
  made->array.n_buffers = static_cast<int64_t>(made->buffers.size());
  return made;
}

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Serializes, and finds each record again.
void serialize(const std::vector<native::Feature>& features, int64_t rows, const native::Selection& selection, bool is_sequence) {
  native::Records records = native::serialize(features, rows, selection, is_sequence, true);
  const int64_t* offsets = reinterpret_cast<const int64_t*>(records.offsets.data);
  const native::Unframed found = native::unframe(records.data.data, static_cast<size_t>(offsets[selection.count]));
  check(found.damage == native::Damage::kNone, "records are framed");
  check(found.starts == std::vector<int64_t>(offsets, offsets + selection.count + 1), "offsets are those of the frames");
  native::give_back(records.data);
  native::give_back(records.offsets);
}

// Takes rows of a column, and holds each against the column's own.
void take_rows(const Column& column, const native::Selection& rows) {
  const native::Taken taken = native::take(column, rows);
  check((taken.format != nullptr) == (!column.is_list() && column.kind != native::Kind::kDictionary), "rows of plain columns are taken");
  if (!taken.format) return;
  int64_t nulls = 0;
  for (int64_t place = 0; place < rows.count; ++place) {
    const bool is_valid = !taken.validity.data || (taken.validity.data[place / 8] >> place % 8 & 1);
    check(is_valid == column.is_valid(rows[place]), "nulls are those of the rows");
    nulls += !is_valid;
    if (column.kind != native::Kind::kBytes) continue;
    const native::Range range = column.bytes_range(rows[place]);
    const int32_t* offsets = reinterpret_cast<const int32_t*>(taken.fixed.data) + place;
    check(std::equal(column.data + range.begin, column.data + range.end, taken.texts.data + offsets[0], taken.texts.data + offsets[1]),
          "texts are those of the rows");
  }
  check(nulls == taken.null_count, "nulls are counted");
}

// Packs a column and unpacks some of its rows; then unpacks damaged stripes.
void pack_and_unpack(const ArrowSchema& schema, Column column, int64_t rows, Decisions& decisions) {
  std::vector<Column> columns;
  columns.push_back(std::move(column));
  const Column& packed_column = columns[0];
  const int64_t rows_per_stripe = 1 + static_cast<int64_t>(decisions.next(5));
  const native::Packed packed = native::pack_stripes(columns, rows, rows_per_stripe);
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[packed.size]);
  std::copy(packed.data.data, packed.data.data + packed.size, bytes.get());
  native::give_back(packed.data);
  native::give_back(packed.ends);
  ArrowSchema* children[] = {const_cast<ArrowSchema*>(&schema)};
  ArrowSchema batch{};
  batch.format = "+s";
  batch.n_children = 1;
  batch.children = children;
  const int64_t skip = static_cast<int64_t>(decisions.next(static_cast<uint64_t>(rows) + 1));
  const native::Piece piece{bytes.get(), packed.size, skip, rows - skip};
  const std::vector<native::Unpacked> found = native::unpack_stripes(batch, {piece, piece});
  check(found[0].length == 2 * piece.count, "all rows are unpacked");
  for (int64_t place = 0; place < found[0].length; ++place) {
    const int64_t row = skip + place % piece.count;
    const uint8_t* const validity = found[0].buffers[0].data;
    check((!validity || (validity[place / 8] >> place % 8 & 1)) == packed_column.is_valid(row), "nulls are those of the rows");
    if (packed_column.kind != native::Kind::kBytes || !packed_column.is_valid(row)) continue;
    const native::Range range = packed_column.bytes_range(row);
    const int32_t* offsets = reinterpret_cast<const int32_t*>(found[0].buffers[1].data) + place;
    const uint8_t* texts = found[0].buffers[2].data;
    check(std::equal(packed_column.data + range.begin, packed_column.data + range.end, texts + offsets[0], texts + offsets[1]),
          "texts are those of the rows");
  }
  for (size_t change = packed.size ? 1 + decisions.next(3) : 0; change; --change) {
    bytes[decisions.next(packed.size)] = static_cast<uint8_t>(decisions.next(256));
  }
  native::unpack_stripes(batch, {piece});
}

// Makes CSV text of pieces that mean something there, and of other bytes.
std::string make_text(Decisions& decisions) {
  static const char* const kPieces[] = {",", ",", ",", "\n", "\n", "\r\n", "\"", "\"\"", "1", "-7", "12345678", "1.5", "1e5", "0.1234567890123456789", "true", "NA",
                                        "2013-01-31", "05:15:00", "2013-01-31 05:15:00.5Z", "\xC3\xA9", "abcdefghijklmnopqrstuvwxyz", "\r", " ", "1e-320"};
  std::string text;
  const size_t pieces = decisions.next(200);
  for (size_t piece = 0; piece < pieces; ++piece) {
    const size_t kind = decisions.next(sizeof kPieces / sizeof *kPieces + 1);
    if (kind < sizeof kPieces / sizeof *kPieces) {
      text += kPieces[kind];
    } else {
      text.append(decisions.next(80) + 1, static_cast<char>(decisions.next(256)));
    }
  }
  return text;
}

// Holds the states after text against an automaton that looks at one byte after the other.
void follow_quotes(const std::string& text, char previous) {
  const std::unique_ptr<uint8_t[]> data(new uint8_t[text.size()]);
  std::copy(text.begin(), text.end(), data.get());
  const auto after = native::quote_transition(data.get(), text.size(), static_cast<uint8_t>(previous), ',', '"');
  for (native::QuoteState before : {native::kOutside, native::kClosed, native::kInside}) {
    native::QuoteState state = before;
    char last = previous;
    for (const char byte : text) {
      const bool may_open = state == native::kClosed || (state == native::kOutside && (last == ',' || last == '\n' || last == '\r'));
      if (state == native::kInside) {
        if (byte == '"') state = native::kClosed;
      } else {
        state = byte == '"' && may_open ? native::kInside : native::kOutside;
      }
      last = byte;
    }
    check(after[before] == state, "the state after text is that of an automaton");
  }
}

// Parses text, from memory of exactly its size, sometimes as many records as one after the other; what is not declined has buffers that hold together.
void parse_csv(Decisions& decisions) {
  std::string text = make_text(decisions);
  const size_t num_columns = 1 + decisions.next(decisions.next(16) ? 4 : 900);
  const size_t times = decisions.next(8) ? 1 : 1 + decisions.next(100);
  follow_quotes(text, decisions.next(2) ? '\n' : 'x');
  if (decisions.next(4)) {  // mostly records of so many cells
    const std::string cell = text.substr(0, text.find_first_of(",\n\r\""));
    text.clear();
    for (size_t place = 0; place < num_columns * times; ++place) text += cell + ((place + 1) % num_columns ? "," : "\n");
  }
  std::vector<native::CsvColumn> columns;
  for (size_t place = 0; place < num_columns; ++place) {
    columns.push_back({place, static_cast<native::CsvType>(decisions.next(10)), decisions.next(2) ? INT64_MIN : 0, INT64_MAX});
  }
  const std::unique_ptr<uint8_t[]> data(new uint8_t[text.size()]);
  std::copy(text.begin(), text.end(), data.get());
  const native::CsvDialect dialect = {',', decisions.next(2) ? '"' : -1};
  const size_t most = decisions.next(4) ? SIZE_MAX : 30;
  const std::optional<native::CsvTable> table = native::parse_csv(data.get(), text.size(), dialect, num_columns, columns, {"", "NA", "-7"}, most);
  if (!table) return;
  const size_t rows = static_cast<size_t>(table->rows);
  for (size_t place = 0; place < num_columns; ++place) {
    const native::CsvValues& values = table->columns[place];
    size_t nulls = 0;
    for (size_t row = 0; row < rows && values.validity.data; ++row) nulls += !(values.validity.data[row / 8] >> row % 8 & 1);
    check(nulls == values.null_count, "nulls are counted");
    if (columns[place].type != native::CsvType::kText && columns[place].type != native::CsvType::kBytes) continue;
    const int32_t* offsets = reinterpret_cast<const int32_t*>(values.fixed.data);
    check(offsets[0] == 0 && values.texts.size >= static_cast<size_t>(offsets[rows]), "texts lie in their buffer");
    for (size_t row = 0; row < rows; ++row) check(offsets[row] <= offsets[row + 1], "offsets grow");
  }
}

// Whether something is done that is to be rare, once in so many times: zeros, which many decisions are, do not say so.
bool rarely(uint64_t times, Decisions& decisions) { return decisions.next(times) == times - 1; }

// Returns a length-delimited field, of less than 16 KiB; its length is now and then padded, or another one.
std::string field(char tag, const std::string& content, Decisions& decisions) {
  const size_t size = rarely(60, decisions) ? decisions.next(300) : content.size();
  const bool is_long = size > 127 || rarely(20, decisions);
  std::string made = {tag, static_cast<char>(is_long ? (size & 127) | 128 : size)};
  if (is_long) made += static_cast<char>(size >> 7 & 127);
  return made + content;
}

// Makes a Feature of a kind, 0 to 2 as native::ValueKind, or of another one.
std::string make_feature(size_t kind, Decisions& decisions) {
  static const char kTags[] = {0x0A, 0x12, 0x1A, 0x22};
  static const char kUnpackedTags[] = {0x0A, 0x0D, 0x08, 0x08};
  std::string list;
  const size_t parts = rarely(8, decisions) ? decisions.next(4) : 1;
  for (size_t part = 0; part < parts; ++part) {
    std::string values;
    const size_t count = decisions.next(4) ? 1 : decisions.next(30);
    for (size_t value = 0; value < count; ++value) {
      if (kind == 2) values.append(rarely(20, decisions) ? decisions.next(11) : decisions.next(2) * 2, static_cast<char>(128 + decisions.next(128)));
      values.append(kind == 1 ? 4 : 1, static_cast<char>(decisions.next(rarely(30, decisions) ? 256 : 2)));
    }
    list += decisions.next(4) || kind == 0 ? field(0x0A, values, decisions) : kUnpackedTags[kind] + values.substr(0, kind == 1 ? 4 : values.size());
  }
  return !rarely(10, decisions) ? field(kTags[rarely(30, decisions) ? decisions.next(4) : kind], list, decisions) : "";
}

const std::vector<native::WantedFeature> kWanted = {{"b", native::ValueKind::kBytes}, {"a longer name", native::ValueKind::kFloat}, {"i", native::ValueKind::kInt64}};

// Makes a map of features, mostly of those wanted; in a map of feature lists each value is a few of them.
std::string make_map(bool of_lists, Decisions& decisions) {
  std::string entries;
  const size_t rotation = rarely(8, decisions) ? decisions.next(4) : 0;
  for (size_t place = 0; place < 4; ++place) {
    const size_t number = (place + rotation) % 4;
    if (!decisions.next(4)) continue;
    const std::string name = number < kWanted.size() ? kWanted[number].name : std::string(decisions.next(12), static_cast<char>(decisions.next(rarely(9, decisions) ? 256 : 128)));
    const size_t kind = number < kWanted.size() ? static_cast<size_t>(kWanted[number].kind) : decisions.next(3);
    std::string value;
    const size_t steps = of_lists ? decisions.next(rarely(9, decisions) ? 90 : 4) : 1;
    for (size_t step = 0; step < steps; ++step) value += of_lists ? field(0x0A, make_feature(kind, decisions), decisions) : make_feature(kind, decisions);
    entries += field(0x0A, field(0x0A, name, decisions) + field(0x12, value, decisions), decisions);
  }
  return entries;
}

// Checks the lists of a column: they follow each other and hold all values.
void check_lists(const native::ListColumn& column, int64_t rows) {
  const int64_t* const ends = reinterpret_cast<const int64_t*>(column.offsets.data);
  int64_t nulls = 0;
  check(ends[0] == 0 && ends[rows] == column.num_values, "lists hold all values");
  for (int64_t row = 0; row < rows; ++row) {
    const bool is_null = column.validity.data && !(column.validity.data[row / 8] >> row % 8 & 1);
    check(ends[row] <= ends[row + 1] && (!is_null || ends[row] == ends[row + 1]), "lists follow each other, and null ones are empty");
    nulls += is_null;
  }
  check(nulls == column.null_count, "missing features are counted");
}

void check_values(const native::ListColumn& column, native::ValueKind kind) {
  const size_t width = kind == native::ValueKind::kFloat ? 4 : 8;
  check(column.values.size >= width * static_cast<size_t>(column.num_values), "values fit their buffer");
  if (kind != native::ValueKind::kBytes) return;
  const int64_t* const texts = reinterpret_cast<const int64_t*>(column.values.data);
  for (int64_t value = 0; value < column.num_values; ++value) check(texts[value] <= texts[value + 1], "texts follow each other");
  check(texts[0] == 0 && column.texts.size >= static_cast<size_t>(texts[column.num_values]), "texts fit their buffer");
}

// Parses records, in memory of exactly their size, of features that are mostly those wanted; what is not declined has buffers that hold together.
void parse_examples(Decisions& decisions) {
  const bool framed = decisions.next(2), is_sequence = decisions.next(2);
  const size_t rows = decisions.next(6);
  std::string bytes;
  std::vector<int64_t> offsets = {0};
  for (size_t row = 0; row < rows; ++row) {
    std::string record = rarely(9, decisions) ? "" : field(0x0A, make_map(false, decisions), decisions);
    if (is_sequence && !rarely(9, decisions)) record += field(0x12, make_map(true, decisions), decisions);
    if (rarely(20, decisions) && !record.empty()) record[decisions.next(record.size())] = static_cast<char>(decisions.next(256));
    if (framed) record = std::string(native::kHeaderBytes, 0) + record + std::string(native::kFooterBytes - rarely(99, decisions), 0);
    bytes += record;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  if (rarely(40, decisions)) offsets[decisions.next(offsets.size())] = static_cast<int64_t>(decisions.next(400)) - 100;
  const std::unique_ptr<uint8_t[]> data(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), data.get());
  Column records{};
  records.kind = native::Kind::kLargeBytes;
  records.fixed = reinterpret_cast<const uint8_t*>(offsets.data());
  records.data = data.get();
  records.length = static_cast<int64_t>(rows);
  records.limits = {0, static_cast<int64_t>(bytes.size())};
  native::Wanted wanted{kWanted, {}, is_sequence, rarely(3, decisions)};
  if (is_sequence) wanted.lists = kWanted;
  // Ids by hash, and of texts that are numbers of one digit.
  const std::string digits = "0123456789";
  const std::vector<int32_t> places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  Column none{}, known{};
  none.kind = known.kind = native::Kind::kBytes;
  known.fixed = reinterpret_cast<const uint8_t*>(places.data());
  known.data = reinterpret_cast<const uint8_t*>(digits.data());
  known.length = 10;
  known.limits = {0, 10};
  const native::Memory memory = native::index_texts(known);
  std::vector<uint64_t> slots(native::slots_for(known.length));
  std::copy_n(reinterpret_cast<const uint64_t*>(memory.data), slots.size(), slots.data());
  native::give_back(memory);
  for (uint64_t& slot : slots) slot ^= rarely(99, decisions) ? decisions.any() : 0;
  const native::TextIds ids[] = {{none, {nullptr, 0}, 1 + decisions.next(9)}, {known, {slots.data(), slots.size()}, decisions.next(9)}};
  for (auto* const some : {&wanted.features, &wanted.lists}) {
    for (native::WantedFeature& feature : *some) {
      if (rarely(4, decisions)) feature.size = static_cast<int64_t>(decisions.next(3));
      if (feature.kind == native::ValueKind::kBytes && decisions.next(2)) feature.ids = &ids[decisions.next(2)];
    }
  }
  try {
    // Twice the same chunk; rows of both, and rarely one that is in neither.
    std::vector<int64_t> selected(decisions.next(9));
    for (int64_t& row : selected) row = static_cast<int64_t>(decisions.next(2 * rows + (rarely(20, decisions) ? 2 : 0) + !rows));
    std::vector<native::Column> chunks(1 + decisions.next(2));
    for (native::Column& chunk : chunks) {
      chunk.kind = records.kind;
      chunk.fixed = records.fixed;
      chunk.data = records.data;
      chunk.length = records.length;
      chunk.limits = records.limits;
    }
    const int64_t all = static_cast<int64_t>(chunks.size() * rows);
    const bool are_selected = decisions.next(2);
    const native::Selection selection{are_selected ? selected.data() : nullptr, are_selected ? static_cast<int64_t>(selected.size()) : all};
    const std::optional<native::ExampleColumns> made = native::parse_examples(chunks, selection, framed, wanted);
    if (!made) return;
    const auto check_feature = [](const native::ListColumn& column, const native::WantedFeature& feature, int64_t count) {
      if (feature.size == native::kAnySize) check_lists(column, count);
      else check(column.num_values == feature.size * count, "every list has the size");
      check_values(column, feature.ids ? native::ValueKind::kInt64 : feature.kind);
    };
    for (size_t place = 0; place < wanted.features.size(); ++place) check_feature(made->features[place], wanted.features[place], selection.count);
    for (size_t place = 0; place < wanted.lists.size(); ++place) {
      check_lists(made->lists[place], selection.count);
      check_feature(made->steps[place], wanted.lists[place], made->lists[place].num_values);
    }
  } catch (const native::InvalidData&) {
  }
}

// Packs bits from the lowest one of each byte up.
struct BitWriter {
  std::vector<uint8_t> bytes;
  unsigned used = 0;  // bits of the last byte

  void put(uint64_t value, unsigned bits) {
    for (unsigned bit = 0; bit < bits; ++bit, used = (used + 1) % 8) {
      if (!used) bytes.push_back(0);
      bytes.back() |= static_cast<uint8_t>((value >> bit & 1) << used);
    }
  }
};

// Begins a dynamic block with complete codes: short ones for all symbols, or a few of up to 15 bits.
void put_dynamic(BitWriter& out, Decisions& decisions) {
  static const unsigned kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  std::vector<unsigned> lengths(286, 0);
  const bool is_short = decisions.next(2);
  for (size_t symbol = 0; symbol < 286 && is_short; ++symbol) lengths[symbol] = symbol < 226 ? 8 : 9;
  for (unsigned bits = 1; bits <= 16 && !is_short; ++bits) {
    size_t symbol = bits == 9 ? 256 : decisions.next(286);
    while (lengths[symbol] || (bits != 9 && symbol == 256)) symbol = (symbol + 1) % 286;
    lengths[symbol] = bits < 15 ? bits : 15;
  }
  const bool is_single = rarely(4, decisions);
  for (unsigned symbol = 0; symbol < 30; ++symbol) lengths.push_back(is_single ? symbol == 3 : symbol < 2 ? 4 : 5);
  out.put(286 - 257, 5);
  out.put(29, 5);
  out.put(15, 4);
  for (const unsigned symbol : kOrder) out.put(symbol < 16 ? 4 : 0, 3);
  for (const unsigned length : lengths) {  // a code of four bits is its symbol, the highest bit first
    for (unsigned bit = 4; bit-- > 0;) out.put(length >> bit & 1, 1);
  }
}

// Inflates blocks of random bits into memory of exactly a size.
void inflate_blocks(Decisions& decisions) {
  BitWriter out;
  const size_t blocks = 1 + decisions.next(3);
  for (size_t block = 0; block < blocks; ++block) {
    const uint64_t type = rarely(20, decisions) ? 3 : decisions.next(3);
    out.put(decisions.next(2), 1);
    out.put(type, 2);
    if (type == 2) put_dynamic(out, decisions);
    if (type == 0) {
      const uint64_t size = decisions.next(40);
      while (out.used) out.put(0, 1);
      out.put(size, 16);
      out.put(rarely(9, decisions) ? size : size ^ 0xFFFF, 16);
      for (uint64_t byte = 0; byte < size; ++byte) out.put(decisions.next(256), 8);
      continue;
    }
    const size_t bytes = decisions.next(400);
    const uint64_t seed = decisions.any();
    std::mt19937_64 random(seed);  // more bytes than the decisions have
    for (size_t byte = 0; byte < bytes; ++byte) out.put(random(), 8);
  }
  const size_t size = out.bytes.size(), inflated = decisions.next(8) ? decisions.next(4000) : decisions.next(100'000);
  const std::unique_ptr<uint8_t[]> data(new uint8_t[size]), result(new uint8_t[inflated]);
  std::copy(out.bytes.begin(), out.bytes.end(), data.get());
  native::inflate(data.get(), size, result.get(), inflated);
}

// Compresses records and other bytes in memory of exactly their size, and inflates them.
void deflate_bytes(Decisions& decisions) {
  std::string text;
  std::mt19937_64 random(decisions.any());
  const size_t pieces = decisions.next(60);
  for (size_t piece = 0; piece < pieces; ++piece) {
    if (rarely(12, decisions)) {  // other bytes, some of them again
      const size_t from = text.empty() ? 0 : decisions.next(text.size());
      text += decisions.next(2) ? text.substr(from, decisions.next(700)) : std::string(decisions.next(700), static_cast<char>(decisions.next(256)));
      continue;
    }
    std::string entries;
    for (uint64_t column = 0; column < 1 + decisions.next(2) * 7; ++column) {
      const std::string name(rarely(20, decisions) ? decisions.next(140) : 1 + column, static_cast<char>('a' + column));
      std::string value;
      for (uint64_t bytes = random() % (rarely(10, decisions) ? 300 : 12); value.size() < bytes;) value += static_cast<char>(random() % (column + 2));
      entries += field(0x0A, field(0x0A, name, decisions) + field(0x12, field(0x1A, field(0x0A, value, decisions), decisions), decisions), decisions);
    }
    const std::string features = field(0x0A, entries, decisions);
    const uint64_t size = rarely(60, decisions) ? decisions.any() : features.size();
    text.append(reinterpret_cast<const char*>(&size), 8);
    text += "crc_" + features + "crc_";
  }
  const std::unique_ptr<uint8_t[]> data(new uint8_t[text.size()]), result(new uint8_t[text.size()]);
  std::copy(text.begin(), text.end(), data.get());
  const size_t most = native::deflate_bound(text.size());
  const std::unique_ptr<uint8_t[]> out(new uint8_t[most]);
  const size_t size = native::deflate(data.get(), text.size(), out.get());
  const std::unique_ptr<uint8_t[]> part(new uint8_t[size]);
  std::copy_n(out.get(), size, part.get());
  if (size > most || !native::inflate(part.get(), size, result.get(), text.size()) ||
      !std::equal(data.get(), data.get() + text.size(), result.get())) {
    std::fprintf(stderr, "deflate: %zu bytes are inflated to others\n", text.size());
    std::abort();
  }
}

// Looks texts up among themselves, also by slots that are not theirs.
void look_up_texts(const Column& column, Decisions& decisions) {
  const native::Memory memory = native::index_texts(column);
  const auto* first = reinterpret_cast<const uint64_t*>(memory.data);
  std::vector<uint64_t> slots(first, first + native::slots_for(column.length));
  native::give_back(memory);
  std::vector<int64_t> ids(static_cast<size_t>(column.length));
  native::look_up(column, {column, {slots.data(), slots.size()}, decisions.next(3)}, ids.data());
  for (int64_t row = 0; row < column.length; ++row) {
    if (!column.is_valid(row) || (ids[static_cast<size_t>(row)] >= 0 && ids[static_cast<size_t>(row)] <= row)) continue;
    std::fprintf(stderr, "look_up: row %lld is not found\n", static_cast<long long>(row));
    std::abort();
  }
  for (uint64_t& slot : slots) slot ^= decisions.next(4) ? 0 : decisions.any();
  native::look_up(column, {column, {slots.data(), decisions.next(slots.size() + 1)}, decisions.any()}, ids.data());
}

// Adds up parts of columns, sound and hostile, in buffers that end where their values end.
void merge_parts(Decisions decisions) {
  const size_t columns = decisions.next(4);
  std::vector<std::vector<int64_t>> values(1 + decisions.next(4)), counts(values.size()), ends(values.size());
  std::vector<native::Counted> parts;
  for (size_t place = 0; place < values.size(); ++place) {
    int64_t end = 0;
    for (size_t column = 0; column < columns; ++column) ends[place].push_back(end += static_cast<int64_t>(decisions.next(6)));
    if (decisions.next(16) == 0 && columns) ends[place][0] = static_cast<int64_t>(decisions.any());
    for (int64_t value = 0; value < end; ++value) {
      values[place].push_back(static_cast<int64_t>(decisions.next(2) ? decisions.any() : decisions.next(8)));
      counts[place].push_back(decisions.next(64) ? 1 + static_cast<int64_t>(decisions.next(300)) : static_cast<int64_t>(decisions.any()));
    }
    values[place].shrink_to_fit();
    counts[place].shrink_to_fit();
    ends[place].shrink_to_fit();
    parts.push_back({values[place].data(), nullptr, counts[place].data(), ends[place].data(), end, static_cast<int64_t>(columns)});
  }
  try {
    native::Merged merged;
    native::merge_counts(parts, decisions.next(2), static_cast<int64_t>(decisions.next(9)), static_cast<int64_t>(decisions.next(9)), &merged);
  } catch (const native::InvalidData&) {
  }
}

void run(Decisions decisions) {
  const uint64_t kernel = decisions.next(6);
  if (kernel == 0) return parse_examples(decisions);
  if (kernel == 1) return parse_csv(decisions);
  if (kernel == 2) return inflate_blocks(decisions);
  if (kernel == 3) return deflate_bytes(decisions);
  const int64_t rows = static_cast<int64_t>(decisions.next(12));
  const int64_t unused = static_cast<int64_t>(decisions.next(3));
  std::vector<int64_t> selected(decisions.next(8));
  for (int64_t& row : selected) row = decisions.next(16) ? static_cast<int64_t>(decisions.next(12)) : static_cast<int64_t>(decisions.any());
  const bool is_sequence = decisions.next(2);
  std::vector<std::unique_ptr<Array>> arrays;
  std::vector<native::Feature> features;
  const size_t columns = decisions.next(4);
  for (size_t number = 0; number < columns; ++number) {
    arrays.push_back(make(decisions, rows + unused, 0));
    const std::string name(decisions.next(8) ? number + 1 : 120 + decisions.next(20), static_cast<char>('a' + number));
    try {
      Column column = native::read_column(arrays.back()->schema, arrays.back()->array, name, unused, rows);
      std::vector<uint64_t> hashes(static_cast<size_t>(rows));
      native::hash_column(column, decisions.any(), hashes.data());
      if (column.kind == native::Kind::kBytes) {
        native::fingerprints(column, hashes.data());
        look_up_texts(column, decisions);
      }
      const native::Selection chosen{selected.data(), static_cast<int64_t>(selected.size())};
      native::check_rows(chosen, rows);
      take_rows(column, chosen);
      pack_and_unpack(arrays.back()->schema, native::read_column(arrays.back()->schema, arrays.back()->array, name, unused, rows), rows, decisions);
      features.emplace_back(name, std::move(column), is_sequence && features.size() % 2);
      if (features.back().is_feature_list && !features.back().column.is_list()) features.back().is_feature_list = false;
    } catch (const native::UnknownType&) {
    } catch (const native::InvalidData&) {
    }
  }
  for (const int64_t* chosen : {static_cast<const int64_t*>(nullptr), static_cast<const int64_t*>(selected.data())}) {
    try {
      serialize(features, rows, {chosen, chosen ? static_cast<int64_t>(selected.size()) : rows}, is_sequence);
    } catch (const native::InvalidData&) {
    }
  }
  const std::unique_ptr<uint8_t[]> rest(new uint8_t[decisions.size]);
  std::copy(decisions.data, decisions.data + decisions.size, rest.get());
  native::unframe(rest.get(), decisions.size);
  merge_parts(decisions);
  for (const size_t width : {size_t{16}, size_t{17}}) native::find_repeats(rest.get(), static_cast<int64_t>(decisions.size / width), width);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run({data, size});
  return 0;
}

#ifndef LIBFUZZER
int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  std::mt19937_64 random(count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0);
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  unsigned long inputs = 0;
  for (; std::clock() < end; ++inputs) {
    std::vector<uint8_t> input(random() % 600);
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random() % 3 ? random() : random() % 4);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%lu inputs\n", inputs);
}
#endif
