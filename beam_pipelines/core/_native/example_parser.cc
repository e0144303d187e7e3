// The format is described in example.cc.
#include "example_parser.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "csv_values.h"
#include "tfrecord.h"
#include "wire.h"

namespace native {
namespace {

constexpr uint8_t kField1 = 0x0A, kField2 = 0x12;                 // tags of length-delimited fields 1 and 2
constexpr uint8_t kUnpackedInteger = 0x08, kUnpackedFloat = 0x0D;  // tags of unpacked values
constexpr uint8_t kTagOfKind[] = {0x0A, 0x12, 0x1A};               // Feature's fields 1, 2 and 3, by ValueKind

// ---- Values. A sink stores them, or drops them after the check. ----

// Drops values of features that are not wanted.
struct Nothing {
  static constexpr size_t kIntegerStep = 0;  // each overwrites the one before
  uint8_t scratch[sizeof(uint64_t)];

  void reserve(size_t, size_t = 0) {}
  uint8_t* integers() { return scratch; }
  void end_integers(const uint8_t*) {}
  void add_floats(const uint8_t*, size_t) {}
  void add_text(const uint8_t*, size_t, size_t) {}
};

// The number of packed numbers, which is the number of bytes that end one.
size_t count_varints(const Message& packed) {
  size_t count = 0;
  const uint8_t* at = packed.at;
  for (; packed.end - at >= 8; at += 8) count += static_cast<size_t>(__builtin_popcountll(~load<uint64_t>(at) & kTopBits));
  for (; at < packed.end; ++at) count += *at < 0x80;
  return count;
}

// Reads a varint of at most eight bytes that ends where its size says.
inline bool decode_varint(uint64_t word, size_t size, uint64_t* value) {
  if (size - 1 >= sizeof word) return false;
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size);
  const uint64_t own = word << unused;
  const uint64_t bytes = own >> unused & ~kTopBits;
  if (size <= 4) {  // as most are
    const uint32_t low = static_cast<uint32_t>(bytes), pairs = (low & 0x007F007Fu) | (low & 0x7F007F00u) >> 1;
    *value = (pairs & 0x3FFFu) | (pairs & 0x3FFF0000u) >> 2;
  } else {
    *value = join_sevens(bytes);
  }
  return ((own ^ uint64_t{0x80} << 56) & kTopBits) == kTopBits << unused;
}

template <typename Sink>
bool take_packed_integers(Message packed, Sink& sink) {
  constexpr size_t kFew = 16;  // fewer bytes are not worth counting
  sink.reserve(packed.size() <= kFew ? packed.size() : count_varints(packed));
  uint8_t* out = sink.integers();
  while (!packed.is_empty()) {
    if (packed.size() >= 8) {
      const uint64_t word = load<uint64_t>(packed.at);
      if (!(word & kTopBits)) {  // eight small numbers
        for (int shift = 0; shift < 64; shift += 8, out += Sink::kIntegerStep) store(out, word >> shift & 0xFF);
        packed.at += 8;
        continue;
      }
    }
    uint64_t value;
    if (!take_varint(&packed, &value)) return false;
    store(out, value);
    out += Sink::kIntegerStep;
  }
  sink.end_integers(out);
  return true;
}

template <typename Sink>
bool take_integers(Message list, Sink& sink) {
  while (!list.is_empty()) {
    if (*list.at == kField1) {
      Message packed;
      if (!take_field(&list, kField1, &packed) || !take_packed_integers(packed, sink)) return false;
    } else if (*list.at == kUnpackedInteger) {
      uint64_t value;
      ++list.at;
      if (!take_varint(&list, &value)) return false;
      sink.reserve(1);
      store(sink.integers(), value);
      sink.end_integers(sink.integers() + Sink::kIntegerStep);
    } else {
      return false;
    }
  }
  return true;
}

template <typename Sink>
bool take_floats(Message list, Sink& sink) {
  while (!list.is_empty()) {
    Message packed;
    if (*list.at == kField1) {
      if (!take_field(&list, kField1, &packed) || packed.size() % sizeof(float)) return false;
    } else if (*list.at == kUnpackedFloat && list.size() > sizeof(float)) {
      packed = {list.at + 1, list.at + 1 + sizeof(float), list.readable};
      list.at = packed.end;
    } else {
      return false;
    }
    sink.reserve(packed.size() / sizeof(float));
    sink.add_floats(packed.at, packed.size() / sizeof(float));
  }
  return true;
}

template <typename Sink>
bool take_texts(Message list, Sink& sink) {
  while (!list.is_empty()) {
    Message text;
    if (!take_field(&list, kField1, &text)) return false;
    sink.reserve(1, text.size());
    sink.add_text(text.at, text.size(), static_cast<size_t>(text.readable - text.at));
  }
  return true;
}

template <typename Sink>
bool take_values(ValueKind kind, Message list, Sink& sink) {
  switch (kind) {
    case ValueKind::kInt64:
      return take_integers(list, sink);
    case ValueKind::kFloat:
      return take_floats(list, sink);
    default:
      return take_texts(list, sink);
  }
}

// Whether a Feature that is not wanted is sound; protobuf refuses a record with a damaged one.
bool is_sound(Message feature) {
  if (feature.is_empty()) return true;
  const uint8_t* const tag = std::find(std::begin(kTagOfKind), std::end(kTagOfKind), *feature.at);
  Message list;
  Nothing nothing;
  if (tag == std::end(kTagOfKind) || !take_last_field(&feature, *tag, &list)) return false;
  return take_values(static_cast<ValueKind>(tag - kTagOfKind), list, nothing);
}

template <typename Builder>
inline __attribute__((always_inline)) bool add_feature(Message feature, int64_t row, Builder* column) {
  if (!column->begin(row)) return false;
  if (feature.is_empty()) {
    column->end_null();
    return true;
  }
  Message list;
  if (!take_last_field(&feature, kTagOfKind[static_cast<size_t>(column->kind())], &list)) return false;
  if (!take_values(column->kind(), list, *column)) return false;
  column->end();
  return true;
}

// ---- Keys. ----

// The keys of a map's entries, and for each the key that followed it last. A writer's records have
// their keys in one order, so one or two comparisons find a key; only other keys need a hash.
class Keys {
 public:
  static constexpr uint32_t kStart = 0;             // before the first key of a record
  static constexpr uint32_t kNotKept = UINT32_MAX;  // a sound key that has no number

  // Expects the wanted features in the order of their names, as protobuf's deterministic mode writes
  // them. Key i + 1 is that of name i.
  explicit Keys(const std::vector<WantedFeature>& features) : keys_(1) {
    std::vector<uint32_t> order;
    for (const WantedFeature& feature : features) {
      order.push_back(add(feature.name));
      make_head(order.back(), feature.kind);
    }
    std::sort(order.begin(), order.end(), [&](uint32_t one, uint32_t other) { return features[one - 1].name < features[other - 1].name; });
    uint32_t before = kStart;
    for (const uint32_t key : order) {
      keys_[before].next = key;
      before = key;
    }
  }

  bool are_different() const { return by_name_.size() + 1 == keys_.size(); }

  // Takes entries that have the next key each and one value, as most writers lay them out, as long as `add` takes the
  // value. Sets the last key.
  template <typename Add>
  void take_singles(Message* entries, uint32_t* before, const Add& add) const {
    const uint8_t* at = entries->at;
    for (uint32_t number = keys_[*before].next; number != kStart; number = keys_[number].next) {
      const Key& key = keys_[number];
      if (!key.num_words || entries->readable - at < key.head + static_cast<std::ptrdiff_t>(sizeof(uint64_t))) return;
      const uint64_t length = uint64_t{at[1]} - key.least;
      if (length > key.most) return;
      const uint8_t* const value = at + key.head;
      if (value + length > entries->end) return;
      // The last word has bytes of the one before it.
      const HeadWord* const words = words_.data() + key.words;
      uint64_t differs = load<uint64_t>(value - 8) ^ words[0].with(length);
      for (uint32_t word = 1; word < key.num_words; ++word) differs |= load<uint64_t>(at + 8 * (word - 1)) ^ words[word].with(length);
      if (differs || !add(number - 1, key.kind, Message{value, value + length, entries->readable})) return;
      entries->at = at = value + length;
      *before = number;
    }
  }

  // Expects values like this one of a key that is not wanted.
  void expect(uint32_t number, const Message& feature) {
    if (number == kNotKept || feature.is_empty()) return;
    const auto kind = static_cast<ValueKind>(std::find(std::begin(kTagOfKind), std::end(kTagOfKind), *feature.at) - kTagOfKind);
    if (!keys_[number].num_words || keys_[number].kind != kind) make_head(number, kind);
  }

  // Takes `0A length key 12` from an entry, and sets the key's number. `before`: of the entry before.
  bool take(Message* entry, uint32_t before, uint32_t* found) {
    uint32_t key = before;
    for (int step = 0; step < kSteps; ++step) {
      key = keys_[key].next;
      if (key == kStart) break;
      if (!keys_[key].stands_at(*entry)) continue;
      entry->at += keys_[key].prefix.size();
      *found = key;
      return true;
    }
    return look_up(entry, before, found);
  }

 private:
  static constexpr int kSteps = 8;                               // keys that may be missing before a hash is needed
  static constexpr size_t kMostKept = 4096, kLongestKept = 256;  // of keys that are not wanted, and their bytes

  // Eight bytes of an entry's head: 0A ‹entry› 0A ‹key› key 12 ‹feature› tag ‹list› 0A ‹value›. The length of the value is added to
  // the four other lengths.
  struct HeadWord {
    uint64_t bytes, lengths;

    uint64_t with(uint64_t length) const { return bytes + lengths * length; }
  };

  struct Key {
    std::string prefix;  // 0A ‹key› key 12
    uint64_t word = 0;   // its first bytes
    uint64_t mask = 0;   // and how many there are
    uint32_t next = kStart;
    // The head of an entry with one value of a kind: its words, its size, the length that an empty value has in it, and the most more.
    uint32_t words = 0, num_words = 0;  // none: it is not known, or longer than most
    uint8_t head = 0, least = 0, most = 0;
    ValueKind kind = ValueKind::kBytes;

    bool stands_at(const Message& entry) const {
      if (entry.size() < prefix.size()) return false;
      if (entry.readable - entry.at < 8) return !std::memcmp(entry.at, prefix.data(), prefix.size());
      if ((load<uint64_t>(entry.at) & mask) != word) return false;
      return prefix.size() <= 8 || !std::memcmp(entry.at + 8, prefix.data() + 8, prefix.size() - 8);
    }
  };

  uint32_t add(const std::string& name) {
    Key key;
    uint8_t length[16];
    key.prefix = static_cast<char>(kField1);
    key.prefix.append(length, put_varint(length, name.size()));
    key.prefix += name + static_cast<char>(kField2);
    const size_t size = std::min<size_t>(key.prefix.size(), sizeof key.word);
    std::memcpy(&key.word, key.prefix.data(), size);
    std::memset(&key.mask, 0xFF, size);
    const uint32_t number = static_cast<uint32_t>(keys_.size());
    keys_.push_back(std::move(key));
    by_name_.emplace(name, number);
    return number;
  }

  // Makes the head of the entries of a key.
  void make_head(uint32_t number, ValueKind kind) {
    constexpr size_t kMostHead = 0x7F, kWord = sizeof(uint64_t);
    Key& key = keys_[number];
    const size_t before = 2 + key.prefix.size(), size = before + 5;
    if (size > kMostHead) return;
    const auto byte = [](size_t value) { return static_cast<char>(value); };
    const std::string tag(1, byte(kTagOfKind[static_cast<size_t>(kind)])), field(1, byte(kField1));
    const std::string head = field + byte(size - 2) + key.prefix + byte(4) + tag + byte(2) + field + byte(0);
    std::string lengths(size, 0);
    for (const size_t place : {size_t{1}, before, before + 2, before + 4}) lengths[place] = 1;
    const auto word = [&](size_t place) { return HeadWord{load<uint64_t>(head.data() + place), load<uint64_t>(lengths.data() + place)}; };
    const size_t count = (size + kWord - 1) / kWord;
    if (!key.num_words) {
      key.words = static_cast<uint32_t>(words_.size());
      words_.resize(words_.size() + count);
    }
    words_[key.words] = word(size - kWord);
    for (size_t place = 1; place < count; ++place) words_[key.words + place] = word(kWord * (place - 1));
    key.num_words = static_cast<uint32_t>(count);
    key.head = static_cast<uint8_t>(size);
    key.least = static_cast<uint8_t>(size - 2);
    key.most = static_cast<uint8_t>(kMostHead - key.least);
    key.kind = kind;
  }

  // Finds a key by its hash, and expects it after `before` from now on.
  __attribute__((noinline)) bool look_up(Message* entry, uint32_t before, uint32_t* found) {
    Message key;
    if (!take_field(entry, kField1, &key) || entry->is_empty() || *entry->at++ != kField2) return false;
    const std::string name(reinterpret_cast<const char*>(key.at), key.size());
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) {
      *found = known->second;
      keys_[before].next = known->second;
      return true;
    }
    if (!is_utf8(key.at, key.size())) return false;
    *found = kNotKept;
    if (keys_.size() >= kMostKept || key.size() > kLongestKept) return true;
    *found = add(name);
    keys_[*found].next = keys_[before].next;
    keys_[before].next = *found;
    return true;
  }

  std::vector<Key> keys_;
  std::vector<HeadWord> words_;
  std::unordered_map<std::string, uint32_t> by_name_;
};

// ---- Records. ----

// A type of its own, so that the functions that fill features have one caller and are inlined;
// otherwise parsing takes 25% longer.
struct StepBuilder : ListBuilder {
  using ListBuilder::ListBuilder;
};

constexpr size_t kStepHeadBytes = 6;

// Takes steps that have one value each, as most writers lay them out, as long as `take` takes the value:
// 0A ‹feature› tag ‹list› 0A ‹value› value.
template <typename Take>
void take_single_steps(ValueKind kind, Message* list, const Take& take) {
  constexpr uint64_t kHead = 0x000A'0200'040A, kLengths = 0x0100'0100'0100, kLeast = 4, kMost = 0x7F - kLeast;
  const uint64_t head = kHead | uint64_t{kTagOfKind[static_cast<size_t>(kind)]} << 16;
  const uint8_t* at = list->at;
  while (list->readable - at >= static_cast<std::ptrdiff_t>(kStepHeadBytes + sizeof(uint64_t))) {
    const uint64_t size = at[1] - kLeast;
    const uint8_t* const value = at + kStepHeadBytes;
    if (size > kMost || (load<uint64_t>(at) ^ (head + kLengths * size)) << 16 || value + size > list->end || !take(value, size)) break;
    at = value + size;
  }
  list->at = at;
}

constexpr size_t kLeastStepBytes = 2;  // of one without a kind

// Adds steps that have one value each, as long as there are some. There is room for their rows.
void add_single_steps(Message* list, StepBuilder* steps) {
  if (!steps->has_singles()) return;
  steps->reserve(list->size() / kStepHeadBytes + 1);
  uint8_t* out = steps->singles();
  switch (steps->kind()) {
    case ValueKind::kInt64:
      take_single_steps(ValueKind::kInt64, list, [&](const uint8_t* value, size_t size) {
        uint64_t found;
        if (!decode_varint(load<uint64_t>(value), size, &found)) return false;
        store(out, found);
        out += sizeof found;
        return true;
      });
      return steps->end_singles(out);
    case ValueKind::kFloat:
      take_single_steps(ValueKind::kFloat, list, [&](const uint8_t* value, size_t size) {
        if (size != sizeof(float)) return false;
        store(out, load<uint32_t>(value));
        out += sizeof(float);
        return true;
      });
      return steps->end_singles(out);
    default:
      take_single_steps(steps->kind(), list, [&](const uint8_t* value, size_t size) {
        return steps->add_single_text(steps->row(), value, size, static_cast<size_t>(list->readable - value));
      });
  }
}

template <typename Builder>
using Builders = std::vector<std::unique_ptr<Builder>>;

template <typename Builder>
Builders<Builder> make_builders(const std::vector<WantedFeature>& wanted, int64_t num_rows) {
  Builders<Builder> made;
  for (const WantedFeature& feature : wanted) made.push_back(std::make_unique<Builder>(feature.kind, num_rows, feature.size, feature.ids));
  return made;
}

std::vector<ListColumn> finish_builders(const Builders<ListBuilder>& builders, int64_t num_rows) {
  std::vector<ListColumn> made;
  for (const auto& builder : builders) made.push_back(builder->finish(num_rows));
  return made;
}

// Reads the entries of a map: `add` takes the values of wanted keys by their number, `check` those of
// others. `add_single` takes the bytes of one value that is all that a key has, or leaves it to them.
template <typename Add, typename Check, typename AddSingle>
bool take_map(Message entries, size_t num_wanted, Keys* keys, const Add& add, const Check& check, const AddSingle& add_single) {
  uint32_t before = Keys::kStart;
  while (true) {
    keys->take_singles(&entries, &before, add_single);
    if (entries.is_empty()) return true;
    Message entry, value;
    uint32_t key;
    if (!take_field(&entries, kField1, &entry) || !keys->take(&entry, before, &key)) return false;
    if (!take_bytes(&entry, &value) || !entry.is_empty()) return false;
    if (key <= num_wanted) {
      if (!add(key - 1, value)) return false;
    } else {
      if (!check(value)) return false;
      keys->expect(key, value);
    }
    if (key != Keys::kNotKept) before = key;
  }
}

// Does so where no key has single numbers.
template <typename Add, typename Check>
bool take_map(Message entries, size_t num_wanted, Keys* keys, const Add& add, const Check& check) {
  return take_map(entries, num_wanted, keys, add, check, [](size_t, ValueKind, const Message&) { return false; });
}

constexpr int64_t kRowsAhead = 16;  // rows whose bytes are asked for early
constexpr std::ptrdiff_t kMostAhead = 2048, kCacheLine = 64;

// Asks for the bytes of a row that is read soon: rows in random order are in no cache.
void prefetch(const Message& record) {
  const uint8_t* const end = record.at + std::min(record.end - record.at, kMostAhead);
  for (const uint8_t* at = record.at; at < end; at += kCacheLine) __builtin_prefetch(at);
}

// Chunks of texts as one column.
class Chunks {
 public:
  // `in_order`: whether rows are read in their order.
  Chunks(const std::vector<Column>& chunks, bool in_order) : chunks_(chunks), starts_(1) {
    for (const Column& chunk : chunks) {
      if (chunk.kind != Kind::kBytes && chunk.kind != Kind::kLargeBytes) throw UnknownType("records");
      if (!in_order) chunk_of_.insert(chunk_of_.end(), static_cast<size_t>(chunk.length), static_cast<uint32_t>(starts_.size() - 1));
      starts_.push_back(starts_.back() + chunk.length);
    }
  }

  int64_t length() const { return starts_.back(); }

  // Returns the bytes of a row. `chunk`: that of the row before, where they are read in order. Throws InvalidData.
  Message find(int64_t row, size_t* chunk) const {
    if (!chunk_of_.empty()) *chunk = chunk_of_[static_cast<size_t>(row)];
    while (row >= starts_[*chunk + 1]) ++*chunk;
    const Column& column = chunks_[*chunk];
    const int64_t own = row - starts_[*chunk];
    if (!column.is_valid(own)) throw InvalidData("records: found a null at place " + std::to_string(row) + ", expected a record");
    const Range range = column.bytes_range(own);
    return {column.data + range.begin, column.data + range.end, column.data + column.limits.end};
  }

 private:
  const std::vector<Column>& chunks_;
  std::vector<int64_t> starts_;
  std::vector<uint32_t> chunk_of_;  // a row's chunk: a search takes as long as parsing some features
};

class Parser {
 public:
  Parser(const Wanted& wanted, int64_t num_rows)
      : num_rows_(num_rows), is_sequence_(wanted.is_sequence), is_closed_(wanted.is_closed), feature_keys_(wanted.features), list_keys_(wanted.lists),
        features_(make_builders<ListBuilder>(wanted.features, num_rows)), steps_(make_builders<StepBuilder>(wanted.lists, num_rows)) {
    for (size_t place = 0; place < steps_.size(); ++place) lists_.push_back(std::make_unique<ListBuilder>(ValueKind::kList, num_rows));
  }

  bool are_different() const { return feature_keys_.are_different() && list_keys_.are_different(); }

  bool add(Message record, int64_t row) {
    Message map;
    if (!record.is_empty() && *record.at == kField1) {
      if (!take_field(&record, kField1, &map) || !add_features(map, row)) return false;
    }
    if (record.is_empty()) return true;
    return is_sequence_ && take_last_field(&record, kField2, &map) && add_lists(map, row);
  }

  // Whether no feature with a size is missing in the last records.
  bool is_whole() const {
    return std::all_of(features_.begin(), features_.end(), [&](const auto& feature) { return feature->is_whole(num_rows_); });
  }

  ExampleColumns finish() {
    ExampleColumns made;
    made.features = finish_builders(features_, num_rows_);
    made.lists = finish_builders(lists_, num_rows_);
    for (const auto& steps : steps_) made.steps.push_back(steps->finish(steps->row()));
    return made;
  }

 private:
  __attribute__((noinline)) bool add_features(Message map, int64_t row) {
    const auto add = [&](size_t number, Message feature) { return add_feature(feature, row, features_[number].get()); };
    const auto check = [&](Message feature) { return !is_closed_ && is_sound(feature); };
    const auto add_single = [&](size_t number, ValueKind kind, const Message& value) {
      ListBuilder* const column = number < features_.size() ? features_[number].get() : nullptr;
      if (!column && is_closed_) return false;
      if (kind == ValueKind::kBytes) return !column || column->add_single_text(row, value.at, value.size(), static_cast<size_t>(value.readable - value.at));
      const uint64_t word = load<uint64_t>(value.at);
      if (kind == ValueKind::kFloat) return value.size() == sizeof(float) && (!column || column->add_single(row, static_cast<uint32_t>(word)));
      uint64_t found;
      return decode_varint(word, value.size(), &found) && (!column || column->add_single(row, found));
    };
    return take_map(map, features_.size(), &feature_keys_, add, check, add_single);
  }

  __attribute__((noinline)) bool add_lists(Message map, int64_t row) {
    const auto add = [&](size_t number, Message list) {
      ListBuilder& lists = *lists_[number];
      StepBuilder& steps = *steps_[number];
      if (!lists.begin(row)) return false;
      const int64_t first = steps.row();
      steps.reserve_rows(static_cast<int64_t>(list.size() / kLeastStepBytes + 1), static_cast<double>(num_rows_) / static_cast<double>(row + 1));
      add_single_steps(&list, &steps);
      const auto add_step = [&](Message feature) {
        if (!add_feature(feature, steps.row(), &steps) || steps.is_damaged()) return false;
        add_single_steps(&list, &steps);
        return true;
      };
      if (!take_steps(&list, add_step)) return false;
      lists.add_lists(steps.row() - first);
      lists.end();
      return true;
    };
    return take_map(map, lists_.size(), &list_keys_, add, [&](Message list) { return !is_closed_ && take_steps(&list, is_sound); });
  }

  template <typename Take>
  static bool take_steps(Message* list, const Take& take) {
    while (!list->is_empty()) {
      Message feature;
      if (!take_field(list, kField1, &feature) || !take(feature)) return false;
    }
    return true;
  }

  int64_t num_rows_;
  bool is_sequence_, is_closed_;
  Keys feature_keys_, list_keys_;
  Builders<ListBuilder> features_, lists_;
  Builders<StepBuilder> steps_;
};

}  // namespace

ExampleColumns::~ExampleColumns() {
  for (const auto* columns : {&features, &lists, &steps}) {
    for (const ListColumn& column : *columns) {
      for (const Memory& memory : {column.validity, column.offsets, column.values, column.texts}) give_back(memory);
    }
  }
}

std::optional<ExampleColumns> parse_examples(const std::vector<Column>& chunks, const Selection& rows, bool framed, const Wanted& wanted) {
  Parser parser(wanted, rows.count);
  if (!parser.are_different()) return std::nullopt;
  const Chunks records(chunks, !rows.rows);
  check_rows(rows, records.length());
  const size_t before = framed ? kHeaderBytes : 0, behind = framed ? kFooterBytes : 0;
  // The places of the next rows. Those of many are found in one go, as they are in no cache either: then the processor waits for all at once.
  std::array<Message, 2 * kRowsAhead> found;
  size_t chunk = 0;
  const auto find = [&](int64_t first) {
    for (int64_t place = first; place < std::min(first + kRowsAhead, rows.count); ++place) {
      Message& record = found[static_cast<size_t>(place % (2 * kRowsAhead))];
      record = records.find(rows[place], &chunk);
      if (record.size() < before + behind) {
        throw InvalidData("records: found " + std::to_string(record.size()) + " bytes at place " + std::to_string(rows[place]) + ", expected a frame");
      }
      record.at += before;
      record.end -= behind;
    }
  };
  find(0);
  for (int64_t place = 0; place < rows.count; ++place) {
    if (place % kRowsAhead == 0) find(place + kRowsAhead);
    if (rows.rows && place + kRowsAhead < rows.count) prefetch(found[static_cast<size_t>((place + kRowsAhead) % (2 * kRowsAhead))]);
    if (!parser.add(found[static_cast<size_t>(place % (2 * kRowsAhead))], place)) return std::nullopt;
  }
  if (!parser.is_whole()) return std::nullopt;
  return parser.finish();
}

}  // namespace native
