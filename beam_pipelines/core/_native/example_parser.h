// Serialized tf.Examples and tf.SequenceExamples into columns: a fast path that declines. What it returns is what tfx-bsl's ExamplesToRecordBatchDecoder would; where it is not
// certain of that it returns nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "column.h"
#include "list_builder.h"

namespace native {

// A feature to read.
struct WantedFeature {
  std::string name;  // UTF-8
  ValueKind kind;
};

// What to read: features of the context, and feature lists.
struct Wanted {
  std::vector<WantedFeature> features, lists;
  bool is_sequence;  // whether records are tf.SequenceExamples, which may have feature lists
};

// One column for each feature that was asked for. A feature list has a column of lists of steps, and one of the steps of all rows.
struct ExampleColumns {
  std::vector<ListColumn> features, lists, steps;

  ExampleColumns() = default;
  ExampleColumns(ExampleColumns&&) = default;
  ExampleColumns& operator=(ExampleColumns&&) = delete;
  ~ExampleColumns();
};

// Reads records, each a text; where they are `framed`, a text is a record's whole TFRecord frame, whose checksums were checked before.
//
// A feature that is missing or has no kind is null, and so is a step without a kind and a missing feature list. Other features are only checked.
//
// Declined are: a record of which any message is not laid out as every writer that is known does it (a field once, a map's key before its value, no fields
// that tf.Example does not have), or is damaged; a feature twice in a record; values of another kind than the one asked for; two features of one name.
// Throws UnknownType, and InvalidData for a null and for offsets that contradict themselves.
std::optional<ExampleColumns> parse_examples(const Column& records, bool framed, const Wanted& wanted);

}  // namespace native
