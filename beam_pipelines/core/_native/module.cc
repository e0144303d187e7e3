// The extension `_kernels`. Its only caller is beam_pipelines/core/_native/__init__.py.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrow.h"
#include "characters.h"
#include "column.h"
#include "counts.h"
#include "crc32.h"
#include "crc32c.h"
#include "csv.h"
#include "deflate.h"
#include "example.h"
#include "example_parser.h"
#include "export.h"
#include "farmhash.h"
#include "hash.h"
#include "images.h"
#include "import.h"
#include "inflate.h"
#include "lookup.h"
#include "parts.h"
#include "quotes.h"
#include "repeats.h"
#include "resize.h"
#include "row_order.h"
#include "stripes.h"
#include "take.h"
#include "tfrecord.h"

namespace native {
namespace {

// The columns of a batch, which Arrow exports as one array of structs, as features in order of their names.
std::vector<Feature> read_features(const Imported& batch, const std::vector<std::string>& names, const std::string& is_list) {
  const size_t count = names.size();
  if (static_cast<size_t>(batch.array->n_children) != count || static_cast<size_t>(batch.schema->n_children) != count ||
      is_list.size() != count || batch.array->null_count > 0) {
    throw InvalidData("found another array, expected a record batch of " + std::to_string(count) + " columns");
  }
  std::vector<Feature> features;
  for (size_t place = 0; place < count; ++place) {
    Column column = read_column(*batch.schema->children[place], *batch.array->children[place], names[place], batch.array->offset,
                                batch.array->length);
    features.emplace_back(names[place], std::move(column), is_list[place] != 0);
  }
  std::sort(features.begin(), features.end(), [](const Feature& one, const Feature& other) { return one.name < other.name; });
  for (size_t place = 1; place < count; ++place) {
    if (features[place].name == features[place - 1].name) {
      throw InvalidData("found two columns '" + features[place].name + "', expected names that differ");
    }
  }
  return features;
}

Column column_of(const Imported& imported) {
  return read_column(*imported.schema, *imported.array, "", 0, imported.array->length);
}

PyObject* py_serialize(PyObject*, PyObject* arguments) {
  PyObject *batch_pair, *name_list, *rows_pair;
  const char* list_flags;
  Py_ssize_t num_flags;
  int is_sequence, framed;
  if (!PyArg_ParseTuple(arguments, "O!O!y#Opp", &PyTuple_Type, &batch_pair, &PyList_Type, &name_list, &list_flags, &num_flags,
                        &rows_pair, &is_sequence, &framed)) {
    return nullptr;
  }
  Imported batch, rows;
  std::vector<std::string> names;
  if (!import_pair(batch_pair, &batch) || !read_names(name_list, &names)) return nullptr;
  if (rows_pair != Py_None && !import_pair(rows_pair, &rows)) return nullptr;
  Records records{};
  int64_t count = 0;
  const bool done = run([&] {
    const std::vector<Feature> features = read_features(batch, names, std::string(list_flags, static_cast<size_t>(num_flags)));
    std::vector<int64_t> selected;
    if (rows.array) selected = read_rows(rows);
    count = rows.array ? static_cast<int64_t>(selected.size()) : batch.array->length;
    records = serialize(features, batch.array->length, {rows.array ? selected.data() : nullptr, count}, is_sequence, framed);
  });
  return done ? export_array("Z", count, records.offsets, records.data) : nullptr;
}

PyObject* py_hash_rows(PyObject*, PyObject* arguments) {
  PyObject* list;
  unsigned long long seed;
  int one_column;
  if (!PyArg_ParseTuple(arguments, "O!Kp", &PyList_Type, &list, &seed, &one_column)) return nullptr;
  std::vector<Imported> arrays(static_cast<size_t>(PyList_Size(list)));
  for (size_t place = 0; place < arrays.size(); ++place) {
    if (!import_pair(PyList_GetItem(list, static_cast<Py_ssize_t>(place)), &arrays[place])) return nullptr;
  }
  Memory hashes;
  int64_t count = 0;
  const bool done = run([&] {
    if (arrays.empty()) throw InvalidData("found no columns, expected one or more");
    count = arrays[0].array->length;
    std::vector<Column> columns;
    for (size_t place = 0; place < arrays.size(); ++place) {
      columns.push_back(read_column(*arrays[place].schema, *arrays[place].array, std::to_string(place), 0, arrays[place].array->length));
      if (columns.back().length != count) {
        throw InvalidData("found columns of " + std::to_string(count) + " and " + std::to_string(columns.back().length) +
                          " values, expected one length");
      }
    }
    Buffer out(static_cast<size_t>(count) * sizeof(uint64_t));
    uint64_t* values = reinterpret_cast<uint64_t*>(out.data());
    if (one_column) {
      hash_column(columns[0], seed, values);
    } else {
      hash_rows(columns, count, seed, values);
    }
    hashes = out.release(static_cast<size_t>(count) * sizeof(uint64_t));
  });
  return done ? export_array("L", count, hashes) : nullptr;
}

PyObject* py_order_rows(PyObject*, PyObject* arguments) {
  PyObject *key_object, *list;
  if (!PyArg_ParseTuple(arguments, "OO!", &key_object, &PyList_Type, &list)) return nullptr;
  const uint64_t key = PyLong_AsUnsignedLongLong(key_object);
  if (PyErr_Occurred()) return nullptr;
  std::vector<std::pair<uint64_t, int64_t>> parts(static_cast<size_t>(PyList_Size(list)));
  int64_t count = 0;
  for (size_t place = 0; place < parts.size(); ++place) {
    long long part, rows;
    if (!PyArg_ParseTuple(PyList_GetItem(list, static_cast<Py_ssize_t>(place)), "LL", &part, &rows)) return nullptr;
    parts[place] = {mix(mix(static_cast<uint64_t>(part) + kGolden) ^ key), rows};
    count += rows;
  }
  Memory order;
  const bool done = run([&] {
    for (const auto& [part_key, rows] : parts) {
      if (rows < 0 || rows > UINT32_MAX) throw InvalidData("found " + std::to_string(rows) + " rows of a part, expected 0 to 2^32 - 1");
    }
    Buffer out(static_cast<size_t>(count) * sizeof(int64_t));
    int64_t* numbers = reinterpret_cast<int64_t*>(out.data());
    int64_t first = 0;
    for (const auto& [part_key, rows] : parts) {
      order_rows(part_key, rows, first, numbers + first);
      first += rows;
    }
    order = out.release(static_cast<size_t>(count) * sizeof(int64_t));
  });
  return done ? export_array("l", count, order) : nullptr;
}

PyObject* py_fingerprints(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported texts;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &texts)) return nullptr;
  Memory hashes;
  const bool done = run([&] {
    const size_t size = static_cast<size_t>(texts.array->length) * sizeof(uint64_t);
    Buffer out(size);
    fingerprints(column_of(texts), reinterpret_cast<uint64_t*>(out.data()));
    hashes = out.release(size);
  });
  return done ? export_array("L", texts.array->length, hashes) : nullptr;
}

PyObject* py_index_texts(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported texts;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &texts)) return nullptr;
  Memory slots;
  const bool done = run([&] { slots = index_texts(column_of(texts)); });
  return done ? export_array("L", static_cast<int64_t>(slots_for(texts.array->length)), slots) : nullptr;
}

// Texts of ids with their index, as Python gives them.
struct ImportedIds {
  Imported known, slots;
  unsigned long long num_oov = 0;
  Column texts{};
  std::optional<TextIds> ids = {};

  // Takes two pairs of capsules and a number. Returns false with a Python exception set.
  bool import(PyObject* triple) {
    PyObject *known_pair, *slots_pair;
    return PyArg_ParseTuple(triple, "O!O!K", &PyTuple_Type, &known_pair, &PyTuple_Type, &slots_pair, &num_oov) && import_pair(known_pair, &known) &&
           import_pair(slots_pair, &slots);
  }

  // Throws UnknownType, InvalidData.
  const TextIds& read() {
    if (std::strcmp(slots.schema->format, "L") != 0 || slots.array->null_count > 0) throw InvalidData("found no slots of an index");
    const auto* first = static_cast<const uint64_t*>(slots.array->buffers[1]) + slots.array->offset;
    texts = column_of(known);
    return ids.emplace(texts, Slots{first, static_cast<size_t>(slots.array->length)}, num_oov);
  }
};

PyObject* py_look_up(PyObject*, PyObject* arguments) {
  PyObject *pair, *triple;
  Imported texts;
  ImportedIds ids_of_texts;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &pair, &PyTuple_Type, &triple) || !import_pair(pair, &texts) || !ids_of_texts.import(triple)) {
    return nullptr;
  }
  Memory ids;
  const bool done = run([&] {
    const size_t size = static_cast<size_t>(texts.array->length) * sizeof(int64_t);
    Buffer out(size);
    look_up(column_of(texts), ids_of_texts.read(), reinterpret_cast<int64_t*>(out.data()));
    ids = out.release(size);
  });
  return done ? export_array("l", texts.array->length, ids) : nullptr;
}

// Takes an array of records of one width.
PyObject* py_find_repeats(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported records;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &records)) return nullptr;
  Memory found;
  int64_t count = 0;
  const bool done = run([&] {
    const char* format = records.schema->format;
    const long width = std::strncmp(format, "w:", 2) == 0 ? std::strtol(format + 2, nullptr, 10) : 0;
    if (width < 16 || width > 1024 || records.array->null_count > 0) throw InvalidData("found no records of 16 to 1,024 bytes");
    const auto* data = static_cast<const uint8_t*>(records.array->buffers[1]) + records.array->offset * width;
    const std::vector<int64_t> places = find_repeats(data, records.array->length, static_cast<size_t>(width));
    count = static_cast<int64_t>(places.size());
    const size_t size = places.size() * sizeof(int64_t);
    Buffer out(size);
    if (size) std::memcpy(out.data(), places.data(), size);
    found = out.release(size);
  });
  return done ? export_array("l", count, found) : nullptr;
}

// A buffer of fixed-width values without nulls. Throws InvalidData for another type than one of the given formats.
const void* values_of(const Imported& imported, const char* formats) {
  const char* format = imported.schema->format;
  if (format[0] == 0 || format[1] != 0 || !std::strchr(formats, format[0]) || imported.array->null_count != 0) {
    throw InvalidData("found an array of format " + std::string(format) + " or with nulls, expected one of " + formats);
  }
  return static_cast<const uint8_t*>(imported.array->buffers[1]) + imported.array->offset * (format[0] == 'C' ? 1 : 8);
}

// Takes a list of (values, counts, ends). Returns these of all parts, and what moved.
PyObject* py_merge_counts(PyObject*, PyObject* arguments) {
  PyObject* list;
  long long most, points;
  if (!PyArg_ParseTuple(arguments, "O!LL", &PyList_Type, &list, &most, &points)) return nullptr;
  std::vector<Imported> arrays(3 * static_cast<size_t>(PyList_Size(list)));
  for (size_t place = 0; place < arrays.size(); place += 3) {
    PyObject* pairs[3];
    if (!PyArg_ParseTuple(PyList_GetItem(list, static_cast<Py_ssize_t>(place / 3)), "O!O!O!", &PyTuple_Type, &pairs[0], &PyTuple_Type, &pairs[1],
                          &PyTuple_Type, &pairs[2])) {
      return nullptr;
    }
    for (size_t side = 0; side < 3; ++side) {
      if (!import_pair(pairs[side], &arrays[place + side])) return nullptr;
    }
  }
  Merged merged;
  const bool is_float = !arrays.empty() && std::strcmp(arrays[0].schema->format, "g") == 0;
  const bool done = run([&] {
    std::vector<Counted> parts;
    for (size_t place = 0; place < arrays.size(); place += 3) {
      const Imported &values = arrays[place], &counts = arrays[place + 1], &ends = arrays[place + 2];
      if (values.array->length != counts.array->length) throw InvalidData("found other counts than one for each value");
      const void* numbers = values_of(counts, "Cl");
      const bool is_small = counts.schema->format[0] == 'C';
      parts.push_back({static_cast<const int64_t*>(values_of(values, is_float ? "g" : "l")), is_small ? static_cast<const uint8_t*>(numbers) : nullptr,
                       is_small ? nullptr : static_cast<const int64_t*>(numbers), static_cast<const int64_t*>(values_of(ends, "l")),
                       values.array->length, ends.array->length});
    }
    merge_counts(parts, is_float, most, points, &merged);
  });
  if (!done) return nullptr;
  const int64_t columns = arrays[2].array->length;
  PyObject* pairs[] = {export_array(is_float ? "g" : "l", merged.num_values, std::exchange(merged.values, {})),
                       export_array("l", merged.num_values, std::exchange(merged.counts, {})),
                       export_array("l", columns, std::exchange(merged.ends, {})), export_array("g", columns, std::exchange(merged.moved, {}))};
  PyObject* found = pairs[0] && pairs[1] && pairs[2] && pairs[3] ? PyTuple_Pack(4, pairs[0], pairs[1], pairs[2], pairs[3]) : nullptr;
  for (PyObject* pair : pairs) Py_XDECREF(pair);
  return found;
}

// Takes an array of texts and an array of 256 weights.
PyObject* py_sum_weights(PyObject*, PyObject* arguments) {
  PyObject *pair, *weights_pair;
  Imported texts, weights;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &pair, &PyTuple_Type, &weights_pair) || !import_pair(pair, &texts) ||
      !import_pair(weights_pair, &weights)) {
    return nullptr;
  }
  Memory sums;
  const bool done = run([&] {
    if (std::strcmp(weights.schema->format, "L") != 0 || weights.array->length != 256 || weights.array->null_count > 0) {
      throw InvalidData("found other weights than one for each byte");
    }
    const auto* table = static_cast<const uint64_t*>(weights.array->buffers[1]) + weights.array->offset;
    const size_t size = static_cast<size_t>(texts.array->length) * sizeof(uint64_t);
    Buffer out(size);
    sum_weights(column_of(texts), table, reinterpret_cast<uint64_t*>(out.data()));
    sums = out.release(size);
  });
  return done ? export_array("L", texts.array->length, sums) : nullptr;
}

// The values of rows; without a format for a column of a type that no kernel reads.
Taken take_child(const Imported& batch, size_t place, const Selection& rows) {
  try {
    return take(read_column(*batch.schema->children[place], *batch.array->children[place], "", batch.array->offset, batch.array->length), rows);
  } catch (const UnknownType&) {
    return {};
  }
}

// Takes a batch. Returns a batch of the columns whose types are known, and the places of the others.
PyObject* py_take(PyObject*, PyObject* arguments) {
  PyObject *batch_pair, *rows_pair;
  Imported batch, rows;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &batch_pair, &PyTuple_Type, &rows_pair) || !import_pair(batch_pair, &batch) ||
      !import_pair(rows_pair, &rows)) {
    return nullptr;
  }
  std::unique_ptr<Result> result;
  std::vector<size_t> others;
  const bool done = run([&] {
    const std::vector<int64_t> selected = read_rows(rows);
    const Selection selection{selected.data(), static_cast<int64_t>(selected.size())};
    if (batch.array->n_children) check_rows(selection, batch.array->length);
    result = std::make_unique<Result>("+s", selection.count, std::vector<Memory>(1));
    for (size_t place = 0; place < static_cast<size_t>(batch.array->n_children); ++place) {
      Taken taken = take_child(batch, place, selection);
      if (!taken.format) {
        others.push_back(place);
        continue;
      }
      std::vector<Memory> buffers{std::exchange(taken.validity, {}), std::exchange(taken.fixed, {})};
      if (taken.texts.data) buffers.push_back(std::exchange(taken.texts, {}));
      // Its own type, of the width that was taken.
      const ArrowSchema& child = *batch.schema->children[place];
      result->children.push_back(std::make_unique<Result>(child.format, selection.count, std::move(buffers), taken.null_count));
      if (child.name) result->children.back()->name = child.name;
    }
  });
  PyObject* places = done ? PyList_New(0) : nullptr;
  for (const size_t place : others) {
    PyObject* number = places ? PyLong_FromSize_t(place) : nullptr;
    if (!number || PyList_Append(places, number) < 0) Py_CLEAR(places);
    Py_XDECREF(number);
  }
  PyObject* pair = places ? export_result(std::move(result)) : nullptr;
  PyObject* both = pair ? PyTuple_Pack(2, pair, places) : nullptr;
  Py_XDECREF(pair);
  Py_XDECREF(places);
  return both;
}

PyObject* py_frame(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported texts;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &texts)) return nullptr;
  Records records;
  const bool done = run([&] { records = frame(read_column(*texts.schema, *texts.array, "records", 0, texts.array->length)); });
  return done ? export_array("Z", texts.array->length, records.offsets, records.data) : nullptr;
}

// Takes an array of bytes, the pixels.
PyObject* py_resize(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported pixels;
  int height, width, channels, new_height, new_width;
  Box box;
  if (!PyArg_ParseTuple(arguments, "O!iii(ffff)ii", &PyTuple_Type, &pair, &height, &width, &channels, &box.left, &box.top, &box.right,
                        &box.bottom, &new_height, &new_width) ||
      !import_pair(pair, &pixels)) {
    return nullptr;
  }
  Memory resized;
  int64_t count = 0;
  const bool done = run([&] {
    const int64_t size = int64_t{height} * width * channels;
    if (height < 1 || width < 1 || (channels != 1 && channels != 3) || new_height < 1 || new_width < 1 ||
        std::strcmp(pixels.schema->format, "C") != 0 || pixels.array->length != size || pixels.array->null_count > 0) {
      throw InvalidData("found other pixels than height, width and channels say");
    }
    const auto* data = static_cast<const uint8_t*>(pixels.array->buffers[1]) + pixels.array->offset;
    count = int64_t{new_height} * new_width * channels;
    Buffer out(static_cast<size_t>(count));
    resize({data, height, width, channels, {0, 0, height, width}}, box, new_height, new_width, out.data());
    resized = out.release(static_cast<size_t>(count));
  });
  return done ? export_array("C", count, resized) : nullptr;
}

// Takes the addresses of libjpeg's functions. Returns an array of pixels, or of cuts, and one of the rows that are left to the caller.
PyObject* py_decode_jpegs(PyObject*, PyObject* arguments) {
  PyObject *contents_pair, *epochs_pair, *addresses;
  const char* seed;
  Py_ssize_t seed_bytes;
  int crop, threads, only_cuts;
  long long most_pixels;
  Wish wish;
  Imported contents, epochs;
  if (!PyArg_ParseTuple(arguments, "O!O!(iii)iy#LO!ip", &PyTuple_Type, &contents_pair, &PyTuple_Type, &epochs_pair, &wish.height, &wish.width,
                        &wish.channels, &crop, &seed, &seed_bytes, &most_pixels, &PyTuple_Type, &addresses, &threads, &only_cuts) ||
      !import_pair(contents_pair, &contents) || !import_pair(epochs_pair, &epochs)) {
    return nullptr;
  }
  constexpr size_t kFunctions = sizeof(libjpeg::Functions) / sizeof(void*);
  void* found[kFunctions] = {};
  for (size_t place = 0; place < kFunctions; ++place) {
    PyObject* address = PyTuple_GetItem(addresses, static_cast<Py_ssize_t>(place));
    if (!address || !(found[place] = PyLong_AsVoidPtr(address))) return nullptr;
  }
  libjpeg::Functions functions;
  std::memcpy(&functions, found, sizeof functions);
  wish.crop = static_cast<Crop>(crop);
  wish.most_pixels = most_pixels;
  for (Py_ssize_t at = 0; at + 4 <= seed_bytes; at += 4) wish.seed.push_back(load<uint32_t>(seed + at));
  Memory pixels, left;
  int64_t count = 0, rest = 0;
  const bool done = run([&] {
    if (wish.height < 1 || wish.width < 1 || (wish.channels != 1 && wish.channels != 3)) throw InvalidData("found a wrong size of images");
    const Column column = read_column(*contents.schema, *contents.array, "contents", 0, contents.array->length);
    if (column.kind != Kind::kBytes && column.kind != Kind::kLargeBytes) throw UnknownType("contents");
    std::vector<int64_t> rows;
    if (only_cuts) {
      count = column.length * static_cast<int64_t>(kCutNumbers);
      std::vector<float> cuts(static_cast<size_t>(count));
      rows = cut_jpegs(column, read_rows(epochs), wish, functions, threads, cuts.data());
      Buffer out(cuts.size() * sizeof(float));
      if (count) std::memcpy(out.data(), cuts.data(), cuts.size() * sizeof(float));
      pixels = out.release(cuts.size() * sizeof(float));
    } else {
      count = column.length * wish.height * wish.width * wish.channels;
      Buffer out(static_cast<size_t>(count));
      rows = decode_jpegs(column, read_rows(epochs), wish, functions, threads, out.data());
      pixels = out.release(static_cast<size_t>(count));
    }
    rest = static_cast<int64_t>(rows.size());
    Buffer others(rows.size() * sizeof(int64_t));
    if (rest) std::memcpy(others.data(), rows.data(), rows.size() * sizeof(int64_t));
    left = others.release(rows.size() * sizeof(int64_t));
  });
  if (!done) return nullptr;
  PyObject* data = export_array(only_cuts ? "f" : "C", count, pixels);
  PyObject* rows = export_array("l", rest, left);
  PyObject* both = data && rows ? PyTuple_Pack(2, data, rows) : nullptr;
  Py_XDECREF(data);
  Py_XDECREF(rows);
  return both;
}

// Takes an array of one text, the framed records.
PyObject* py_unframe(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported framed;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &framed)) return nullptr;
  Memory starts;
  int64_t count = 0;
  Damage damage = Damage::kNone;
  const bool done = run([&] {
    const Column text = read_column(*framed.schema, *framed.array, "framed", 0, 1);
    const Range range = text.bytes_range(0);
    const Unframed found = unframe(text.data + range.begin, static_cast<size_t>(range.end - range.begin));
    damage = found.damage;
    count = static_cast<int64_t>(found.starts.size());
    Buffer out(found.starts.size() * sizeof(int64_t));
    std::memcpy(out.data(), found.starts.data(), found.starts.size() * sizeof(int64_t));
    starts = out.release(found.starts.size() * sizeof(int64_t));
  });
  PyObject* array = done ? export_array("l", count, starts) : nullptr;
  if (!array) return nullptr;
  PyObject* result = PyTuple_New(2);
  if (!result) {
    Py_DECREF(array);
    return nullptr;
  }
  PyTuple_SetItem(result, 0, array);
  PyTuple_SetItem(result, 1, PyLong_FromLong(static_cast<long>(damage)));
  return result;
}

// Reads bytes, or None as null. Returns false with a Python exception set.
bool read_optional(PyObject* object, char** data, Py_ssize_t* size) {
  *data = nullptr;
  *size = 0;
  return object == Py_None || PyBytes_AsStringAndSize(object, data, size) == 0;
}

// Takes a list of tuples: path or None, bytes or None, numbers as in Part. Returns an array of frames, or None.
PyObject* py_read_parts(PyObject*, PyObject* arguments) {
  PyObject* list;
  int is_compressed;
  if (!PyArg_ParseTuple(arguments, "O!p", &PyList_Type, &list, &is_compressed)) return nullptr;
  std::vector<Part> parts(static_cast<size_t>(PyList_Size(list)));
  size_t sum = 0, rows = 0;
  for (size_t place = 0; place < parts.size(); ++place) {
    Part& part = parts[place];
    PyObject *path_object, *data_object;
    char *path, *data;
    Py_ssize_t path_size, size;
    long long numbers[5];
    unsigned int crc;
    if (!PyArg_ParseTuple(PyList_GetItem(list, static_cast<Py_ssize_t>(place)), "OOLLLLLI", &path_object, &data_object, &numbers[0], &numbers[1],
                          &numbers[2], &numbers[3], &numbers[4], &crc) ||
        !read_optional(path_object, &path, &path_size) || !read_optional(data_object, &data, &size)) {
      return nullptr;
    }
    part = {path, reinterpret_cast<const uint8_t*>(data), numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], crc};
    constexpr size_t kMost = PY_SSIZE_T_MAX / 16;
    const bool is_read = part.path && !data, is_given = !part.path && data && part.offset <= size && part.size <= size - part.offset;
    if ((!is_read && !is_given) || part.offset < 0 || part.size < 0 || part.framed_size < 0 || part.rows < 0 ||
        static_cast<size_t>(part.size) > kMost || static_cast<size_t>(part.framed_size) > kMost - sum || static_cast<size_t>(part.rows) > kMost - rows) {
      PyErr_Format(PyExc_ValueError, "part %zd: found other bytes or numbers than a part has", static_cast<Py_ssize_t>(place));
      return nullptr;
    }
    sum += static_cast<size_t>(part.framed_size);
    rows += static_cast<size_t>(part.rows);
  }
  Records records;
  if (!run([&] { records = read_parts(parts, is_compressed); })) return nullptr;
  if (!records.data.data) Py_RETURN_NONE;
  return export_array("Z", static_cast<int64_t>(rows), records.offsets, records.data);
}

// Takes a raw deflate stream and its inflated size. Returns bytes, or None; for tests.
PyObject* py_inflate(PyObject*, PyObject* arguments) {
  const char* data;
  Py_ssize_t size, inflated;
  if (!PyArg_ParseTuple(arguments, "y#n", &data, &size, &inflated)) return nullptr;
  PyObject* result = PyBytes_FromStringAndSize(nullptr, inflated);
  if (!result) return nullptr;
  auto* out = reinterpret_cast<uint8_t*>(PyBytes_AsString(result));
  if (inflate(reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(size), out, static_cast<size_t>(inflated))) return result;
  Py_DECREF(result);
  Py_RETURN_NONE;
}

// Takes an array of texts. Returns an array of texts.
PyObject* py_deflate(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported array;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &array)) return nullptr;
  Memory texts, offsets;
  int64_t count = 0;
  const bool done = run([&] {
    const Column parts = read_column(*array.schema, *array.array, "parts", 0, array.array->length);
    if (parts.kind != Kind::kBytes && parts.kind != Kind::kLargeBytes) throw UnknownType("parts");
    count = parts.length;
    size_t most = 0;
    for (int64_t part = 0; part < count; ++part) {
      const Range range = parts.bytes_range(part);
      most += deflate_bound(static_cast<size_t>(range.end - range.begin));
    }
    const size_t places_size = static_cast<size_t>(count + 1) * sizeof(int64_t);
    Buffer out(most), places(places_size);
    size_t size = 0;
    store(places.data(), int64_t{0});
    for (int64_t part = 0; part < count; ++part) {
      const Range range = parts.bytes_range(part);
      size += deflate(parts.data + range.begin, static_cast<size_t>(range.end - range.begin), out.data() + size);
      store(places.data() + static_cast<size_t>(part + 1) * sizeof(int64_t), static_cast<int64_t>(size));
    }
    texts = out.release(size);
    offsets = places.release(places_size);
  });
  return done ? export_array("Z", count, offsets, texts) : nullptr;
}

// The CRC-32C of an array of one text, by the processor's instructions and by tables.
PyObject* py_crc32c(PyObject*, PyObject* arguments) {
  PyObject* pair;
  Imported array;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &pair) || !import_pair(pair, &array)) return nullptr;
  uint32_t by_instructions = 0, by_tables = 0;
  const bool done = run([&] {
    const Column text = read_column(*array.schema, *array.array, "data", 0, 1);
    const Range range = text.bytes_range(0);
    by_instructions = crc32c(text.data + range.begin, static_cast<size_t>(range.end - range.begin));
    by_tables = crc32c_portable(text.data + range.begin, static_cast<size_t>(range.end - range.begin));
  });
  return done ? Py_BuildValue("(II)", by_instructions, by_tables) : nullptr;
}

// The CRC-32 of bytes, by the processor's instructions and by tables.
PyObject* py_crc32(PyObject*, PyObject* bytes) {
  char* data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) return nullptr;
  const auto* begin = reinterpret_cast<const uint8_t*>(data);
  return Py_BuildValue("(II)", crc32(begin, static_cast<size_t>(size)), crc32_portable(begin, static_cast<size_t>(size)));
}

// A type of a CSV column: its format in the C data interface, limits of integers, and the result's format.
struct NamedCsvType {
  const char* name;
  CsvType type;
  int64_t least, most;
  const char* format;
};

constexpr NamedCsvType kCsvTypes[] = {
    {"c", CsvType::kInteger, INT8_MIN, INT8_MAX, "l"},   {"C", CsvType::kInteger, 0, UINT8_MAX, "l"},   {"s", CsvType::kInteger, INT16_MIN, INT16_MAX, "l"},
    {"S", CsvType::kInteger, 0, UINT16_MAX, "l"},        {"i", CsvType::kInteger, INT32_MIN, INT32_MAX, "l"}, {"I", CsvType::kInteger, 0, UINT32_MAX, "l"},
    {"l", CsvType::kInteger, INT64_MIN, INT64_MAX, "l"}, {"L", CsvType::kInteger, 0, INT64_MAX, "l"},   {"f", CsvType::kFloat, 0, 0, "f"},
    {"g", CsvType::kDouble, 0, 0, "g"},                  {"b", CsvType::kBool, 0, 0, "b"},              {"u", CsvType::kText, 0, 0, "u"},
    {"z", CsvType::kBytes, 0, 0, "z"},                   {"tdD", CsvType::kDate, 0, 0, "tdD"},          {"ttu", CsvType::kTime, 0, 0, "ttu"},
    {"tsu:", CsvType::kTimestamp, 0, 0, "tsu:"},         {"tsu:UTC", CsvType::kZonedTimestamp, 0, 0, "tsu:"},
};

const NamedCsvType* csv_type_of(const std::string& name) {
  for (const NamedCsvType& type : kCsvTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

// Returns a batch, or None.
PyObject* py_parse_csv(PyObject*, PyObject* arguments) {
  const char* data;
  Py_ssize_t size, num_columns, most;
  int delimiter, quote;
  PyObject *place_list, *type_list, *null_list;
  if (!PyArg_ParseTuple(arguments, "y#iinO!O!O!n", &data, &size, &delimiter, &quote, &num_columns, &PyList_Type, &place_list, &PyList_Type, &type_list,
                        &PyList_Type, &null_list, &most)) {
    return nullptr;
  }
  std::vector<std::string> type_names, nulls;
  if (!read_names(type_list, &type_names) || !read_names(null_list, &nulls)) return nullptr;
  std::vector<CsvColumn> columns;
  std::vector<const char*> formats;
  for (size_t number = 0; number < type_names.size() && static_cast<Py_ssize_t>(number) < PyList_Size(place_list); ++number) {
    const Py_ssize_t place = PyLong_AsSsize_t(PyList_GetItem(place_list, static_cast<Py_ssize_t>(number)));
    const bool is_exact = type_names[number][0] == '!';
    const NamedCsvType* type = csv_type_of(type_names[number].substr(is_exact));
    if (place == -1 && PyErr_Occurred()) return nullptr;
    if (!type || place < 0 || place >= num_columns) {
      PyErr_Format(PyExc_ValueError, "column %zd of type '%s': found no such place or type", place, type_names[number].c_str());
      return nullptr;
    }
    columns.push_back({static_cast<size_t>(place), type->type, type->least, type->most, is_exact});
    formats.push_back(type->format);
  }
  std::unique_ptr<Result> result;
  const bool done = run([&] {
    std::optional<CsvTable> table = parse_csv(reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(size), {static_cast<uint8_t>(delimiter), quote},
                                              static_cast<size_t>(num_columns), columns, nulls, static_cast<size_t>(most));
    if (!table) return;
    result = std::make_unique<Result>("+s", table->rows, std::vector<Memory>(1));
    for (size_t number = 0; number < columns.size(); ++number) {
      CsvValues values = std::exchange(table->columns[number], {});
      std::vector<Memory> buffers{values.validity, values.fixed};
      if (values.texts.data) buffers.push_back(values.texts);
      result->children.push_back(std::make_unique<Result>(formats[number], table->rows, std::move(buffers), static_cast<int64_t>(values.null_count)));
    }
  });
  if (!done) return nullptr;
  if (!result) Py_RETURN_NONE;
  return export_result(std::move(result));
}

PyObject* py_quote_transition(PyObject*, PyObject* arguments) {
  const char* data;
  Py_ssize_t size;
  unsigned char previous, delimiter, quote;
  if (!PyArg_ParseTuple(arguments, "y#bbb", &data, &size, &previous, &delimiter, &quote)) return nullptr;
  std::array<QuoteState, 3> after{};
  const bool done = run([&] { after = quote_transition(reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(size), previous, delimiter, quote); });
  return done ? Py_BuildValue("(iii)", after[0], after[1], after[2]) : nullptr;
}

using AllIds = std::vector<std::unique_ptr<ImportedIds>>;

// Reads names, a byte for each: 'Z', 'f' or 'l', the type of its values; the size of its lists; and what its texts become, or None: in `ids`
// for each feature, or null. Returns false with a Python exception set.
bool read_wanted(PyObject* given, std::vector<WantedFeature>* wanted, AllIds* ids) {
  PyObject *name_list, *size_list, *id_list;
  const char* kinds;
  Py_ssize_t num_kinds;
  std::vector<std::string> names;
  if (!PyArg_ParseTuple(given, "O!y#O!O!", &PyList_Type, &name_list, &kinds, &num_kinds, &PyList_Type, &size_list, &PyList_Type, &id_list) ||
      !read_names(name_list, &names)) {
    return false;
  }
  if (names.size() != static_cast<size_t>(num_kinds) || PyList_Size(size_list) != num_kinds || PyList_Size(id_list) != num_kinds) {
    PyErr_SetString(PyExc_ValueError, "found another number of kinds, sizes or ids than of names, expected one for each");
    return false;
  }
  for (size_t place = 0; place < names.size(); ++place) {
    const ValueKind kind = kinds[place] == 'Z' ? ValueKind::kBytes : kinds[place] == 'f' ? ValueKind::kFloat : ValueKind::kInt64;
    const Py_ssize_t size = PyLong_AsSsize_t(PyList_GetItem(size_list, static_cast<Py_ssize_t>(place)));
    if (size == -1 && PyErr_Occurred()) return false;
    wanted->push_back({names[place], kind, size < 0 ? kAnySize : size});
    PyObject* const own = PyList_GetItem(id_list, static_cast<Py_ssize_t>(place));
    ids->push_back(own == Py_None || kind != ValueKind::kBytes ? nullptr : std::make_unique<ImportedIds>());
    if (ids->back() && (!PyTuple_Check(own) || !ids->back()->import(own))) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "found other ids than a tuple");
      return false;
    }
  }
  return true;
}

// An array of lists, around the array of their values. Takes the column's buffers.
std::unique_ptr<Result> list_result(ListColumn& column, int64_t length, const std::string& name, std::unique_ptr<Result> values) {
  const ListColumn taken = std::exchange(column, {});
  const bool has_size = taken.size != kAnySize;
  const std::string format = has_size ? "+w:" + std::to_string(taken.size) : "+L";
  std::vector<Memory> buffers{taken.validity};
  if (!has_size) buffers.push_back(taken.offsets);
  auto made = std::make_unique<Result>(format.c_str(), length, std::move(buffers), taken.null_count);
  made->name = name;
  values->name = "item";
  made->children.push_back(std::move(values));
  return made;
}

// The values of all lists of a column. Takes their buffers.
std::unique_ptr<Result> values_result(ListColumn& column, const WantedFeature& wanted) {
  static constexpr const char* kFormats[] = {"Z", "f", "l"};  // by ValueKind
  const ValueKind kind = wanted.ids ? ValueKind::kInt64 : wanted.kind;
  std::vector<Memory> buffers = {{}, std::exchange(column.values, {})};
  if (kind == ValueKind::kBytes) buffers.push_back(std::exchange(column.texts, {}));
  return std::make_unique<Result>(kFormats[static_cast<size_t>(kind)], column.num_values, std::move(buffers));
}

std::unique_ptr<Result> examples_result(int64_t num_rows, const Wanted& wanted, ExampleColumns columns) {
  auto batch = std::make_unique<Result>("+s", num_rows, std::vector<Memory>{{}});
  for (size_t place = 0; place < columns.features.size(); ++place) {
    ListColumn& lists = columns.features[place];
    auto values = values_result(lists, wanted.features[place]);
    batch->children.push_back(list_result(lists, num_rows, wanted.features[place].name, std::move(values)));
  }
  for (size_t place = 0; place < columns.lists.size(); ++place) {
    ListColumn &lists = columns.lists[place], &steps = columns.steps[place];
    auto values = list_result(steps, lists.num_values, "", values_result(steps, wanted.lists[place]));
    batch->children.push_back(list_result(lists, num_rows, wanted.lists[place].name, std::move(values)));
  }
  return batch;
}

// Takes the features, and the feature lists or None, as names, kinds, sizes and ids. Returns a pair of capsules, or None.
PyObject* py_parse_examples(PyObject*, PyObject* arguments) {
  PyObject *chunk_pairs, *rows_pair, *features, *lists;
  int framed, is_closed;
  if (!PyArg_ParseTuple(arguments, "O!OO!Opp", &PyList_Type, &chunk_pairs, &rows_pair, &PyTuple_Type, &features, &lists, &framed, &is_closed)) {
    return nullptr;
  }
  std::vector<Imported> chunks(static_cast<size_t>(PyList_Size(chunk_pairs)));
  for (size_t place = 0; place < chunks.size(); ++place) {
    if (!import_pair(PyList_GetItem(chunk_pairs, static_cast<Py_ssize_t>(place)), &chunks[place])) return nullptr;
  }
  Imported rows;
  Wanted wanted{{}, {}, lists != Py_None, is_closed != 0};
  if (rows_pair != Py_None && !import_pair(rows_pair, &rows)) return nullptr;
  AllIds ids, ids_of_lists;
  if (!read_wanted(features, &wanted.features, &ids)) return nullptr;
  if (wanted.is_sequence && !read_wanted(lists, &wanted.lists, &ids_of_lists)) return nullptr;
  std::unique_ptr<Result> result;
  const bool done = run([&] {
    for (size_t place = 0; place < ids.size(); ++place) {
      if (ids[place]) wanted.features[place].ids = &ids[place]->read();
    }
    for (size_t place = 0; place < ids_of_lists.size(); ++place) {
      if (ids_of_lists[place]) wanted.lists[place].ids = &ids_of_lists[place]->read();
    }
    std::vector<Column> columns;
    int64_t count = 0;
    for (const Imported& chunk : chunks) {
      columns.push_back(read_column(*chunk.schema, *chunk.array, "records", 0, chunk.array->length));
      count += chunk.array->length;
    }
    std::vector<int64_t> selected;
    if (rows.array) {
      selected = read_rows(rows);
      count = static_cast<int64_t>(selected.size());
    }
    auto parsed = parse_examples(columns, {rows.array ? selected.data() : nullptr, count}, framed, wanted);
    if (parsed) result = examples_result(count, wanted, std::move(*parsed));
  });
  if (!done) return nullptr;
  if (!result) Py_RETURN_NONE;
  return export_result(std::move(result));
}

PyObject* py_pack_stripes(PyObject*, PyObject* arguments) {
  PyObject* pair;
  long long rows_per_stripe;
  Imported batch;
  if (!PyArg_ParseTuple(arguments, "O!L", &PyTuple_Type, &pair, &rows_per_stripe) || !import_pair(pair, &batch)) return nullptr;
  Packed packed;
  const bool done = run([&] {
    if (batch.array->null_count > 0) throw InvalidData("found an array with nulls, expected a record batch");
    std::vector<Column> columns;
    for (int64_t place = 0; place < batch.schema->n_children; ++place) {
      columns.push_back(read_column(*batch.schema->children[place], *batch.array->children[place], batch.schema->children[place]->name,
                                    batch.array->offset, batch.array->length));
    }
    packed = pack_stripes(columns, batch.array->length, rows_per_stripe);
  });
  if (!done) return nullptr;
  PyObject* data = export_array("C", static_cast<int64_t>(packed.size), packed.data);
  PyObject* ends = export_array("l", packed.count, packed.ends);
  PyObject* both = data && ends ? PyTuple_Pack(2, data, ends) : nullptr;
  Py_XDECREF(data);
  Py_XDECREF(ends);
  return both;
}

std::unique_ptr<Result> result_of(Unpacked array) {
  auto result = std::make_unique<Result>(array.format.c_str(), array.length, std::exchange(array.buffers, {}), array.null_count);
  result->name = array.name;
  if (array.child) result->children.push_back(result_of(std::move(*array.child)));
  return result;
}

PyObject* py_unpack_stripes(PyObject*, PyObject* arguments) {
  PyObject *capsule, *list;
  if (!PyArg_ParseTuple(arguments, "OO!", &capsule, &PyList_Type, &list)) return nullptr;
  const auto* schema = static_cast<const ArrowSchema*>(PyCapsule_GetPointer(capsule, "arrow_schema"));
  if (!schema) return nullptr;
  std::vector<Piece> pieces;
  int64_t rows = 0;
  for (Py_ssize_t place = 0; place < PyList_Size(list); ++place) {
    char* data;
    Py_ssize_t size;
    long long skip, count;
    PyObject* bytes;
    if (!PyArg_ParseTuple(PyList_GetItem(list, place), "O!LL", &PyBytes_Type, &bytes, &skip, &count) ||
        PyBytes_AsStringAndSize(bytes, &data, &size) < 0) {
      return nullptr;
    }
    pieces.push_back({reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(size), skip, count});
    rows += count;
  }
  std::unique_ptr<Result> result;
  const bool done = run([&] {
    std::vector<Unpacked> columns = unpack_stripes(*schema, pieces);
    result = std::make_unique<Result>("+s", rows, std::vector<Memory>(1));
    for (Unpacked& column : columns) result->children.push_back(result_of(std::move(column)));
  });
  return done ? export_result(std::move(result)) : nullptr;
}

PyMethodDef methods[] = {
    {"serialize", py_serialize, METH_VARARGS, "serialize(batch, names, is_list, rows, is_sequence, framed): see beam_pipelines.core._native."},
    {"hash_rows", py_hash_rows, METH_VARARGS, "hash_rows(arrays, seed, one_column): see beam_pipelines.core._native."},
    {"order_rows", py_order_rows, METH_VARARGS, "order_rows(key, parts and rows): see beam_pipelines.core._native.parts."},
    {"fingerprints", py_fingerprints, METH_VARARGS, "fingerprints(texts): see beam_pipelines.core._native."},
    {"index_texts", py_index_texts, METH_VARARGS, "index_texts(texts) -> slots: see beam_pipelines.core._native.columns."},
    {"look_up", py_look_up, METH_VARARGS, "look_up(texts, known, slots, num_oov) -> ids: see beam_pipelines.core._native.columns."},
    {"sum_weights", py_sum_weights, METH_VARARGS, "sum_weights(texts, weights): see beam_pipelines.core._native."},
    {"find_repeats", py_find_repeats, METH_VARARGS, "find_repeats(records) -> places: see beam_pipelines.core._native.columns."},
    {"merge_counts", py_merge_counts, METH_VARARGS, "merge_counts(parts, most, points) -> values, counts, ends, moved: see beam_pipelines.core._native.columns."},
    {"frame", py_frame, METH_VARARGS, "frame(records): see beam_pipelines.core._native."},
    {"parse_csv", py_parse_csv, METH_VARARGS,
     "parse_csv(data, delimiter, quote, num_columns, places, types, nulls, most) -> a batch, or None: see beam_pipelines.core._native."},
    {"quote_transition", py_quote_transition, METH_VARARGS, "quote_transition(data, previous, delimiter, quote) -> three states."},
    {"take", py_take, METH_VARARGS, "take(batch, rows) -> a batch of the columns whose types are known, and the places of the others: see beam_pipelines.core._native."},
    {"parse_examples", py_parse_examples, METH_VARARGS, "parse_examples(chunks, rows, features, lists, framed, is_closed) -> a batch, or None: see beam_pipelines.core._native."},
    {"pack_stripes", py_pack_stripes, METH_VARARGS, "pack_stripes(batch, rows_per_stripe) -> bytes, ends: see beam_pipelines.core._native.parts."},
    {"unpack_stripes", py_unpack_stripes, METH_VARARGS, "unpack_stripes(schema, pieces) -> a batch: see beam_pipelines.core._native.parts."},
    {"resize", py_resize, METH_VARARGS, "resize(pixels, height, width, channels, box, new_height, new_width) -> pixels: see beam_pipelines.core._native."},
    {"decode_jpegs", py_decode_jpegs, METH_VARARGS,
     "decode_jpegs(contents, epochs, size, crop, seed, most_pixels, libjpeg, threads, only_cuts) -> pixels or cuts, rows: see beam_pipelines.core._native.images."},
    {"unframe", py_unframe, METH_VARARGS, "unframe(data) -> starts, what is damaged (0: nothing; 1: the length; 2: the data)."},
    {"deflate", py_deflate, METH_VARARGS, "deflate(parts) -> an array: see beam_pipelines.core._native."},
    {"read_parts", py_read_parts, METH_VARARGS, "read_parts(parts, is_compressed) -> an array, or None: see beam_pipelines.core._native."},
    {"inflate", py_inflate, METH_VARARGS, "inflate(data, size) -> bytes, or None."},
    {"crc32c", py_crc32c, METH_VARARGS, "crc32c(data) -> the CRC-32C by this processor's instructions, and by tables."},
    {"crc32", py_crc32, METH_O, "crc32(bytes) -> the CRC-32 by this processor's instructions, and by tables."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Kernels over Arrow arrays; see beam_pipelines.core._native.", 0, methods, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace
}  // namespace native

PyMODINIT_FUNC PyInit__kernels() {
  PyObject* module = PyModule_Create(&native::definition);
  if (module && PyModule_AddStringConstant(module, "crc32c_implementation", native::crc32c_implementation()) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
