// Parses tf.Examples and tf.SequenceExamples to the values of tfx-bsl's decoder and of protobuf, or
// declines where it is not certain of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "column.h"
#include "gather.h"
#include "list_builder.h"

namespace native {

// A feature to read.
struct WantedFeature {
  std::string name;  // UTF-8
  ValueKind kind;
  int64_t size = kAnySize;  // of its list in each record, or in each step of a feature list
  const TextIds* ids = nullptr;  // that texts become; of kBytes
};

// The features of the context, and the feature lists, to read.
struct Wanted {
  std::vector<WantedFeature> features, lists;
  bool is_sequence = false;  // whether records are tf.SequenceExamples, which may have feature lists
  bool is_closed = false;    // whether a record with any other feature or feature list is declined
};

// A column for each feature. A feature list has a column of lists of steps, and one of all steps.
struct ExampleColumns {
  std::vector<ListColumn> features, lists, steps;

  ExampleColumns() = default;
  ExampleColumns(ExampleColumns&&) = default;
  ExampleColumns& operator=(ExampleColumns&&) = delete;
  ~ExampleColumns();
};

// Reads records, each a text; if `framed`, each in its TFRecord frame with checked CRCs. The chunks
// are read as one column. `rows` selects its records, in any order, also several times.
//
// Null are: a missing feature, one without a kind, a missing feature list, a step without a kind.
// Features that are not wanted are only checked; if `is_closed`, they are declined.
//
// Declines a record without a wanted feature that has a size, or with another number of its values, also in a step; a damaged record, one that no known writer lays out so (a field twice, a map's value
// before its key, unknown fields), a wanted feature twice in a record, values of another kind, and
// two wanted features with one name.
// Throws UnknownType, and InvalidData for a null, for offsets that contradict themselves and for a
// row that the chunks do not have.
std::optional<ExampleColumns> parse_examples(const std::vector<Column>& chunks, const Selection& rows, bool framed, const Wanted& wanted);

}  // namespace native
