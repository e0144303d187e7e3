#include "export_lists.h"

#include <initializer_list>
#include <memory>
#include <utility>

#include "arrow.h"
#include "export.h"

namespace native {
namespace {

constexpr const char* kFormats[] = {"Z", "f", "l"};  // of values, by ValueKind
constexpr size_t kMostBuffers = 3;

// The structs of a batch, of its columns and of their values, with all that they point to. It lives as long as one of them does, because whoever
// imports a batch may keep some of its columns.
template <typename Struct>
struct Owned {
  Struct batch{};
  std::vector<Struct> lists, items;
  std::vector<Struct*> list_places, item_places;
  std::vector<const void*> buffers;  // places for the batch, each list and each list's values
  std::vector<std::string> names;
  ExampleColumns columns;

  explicit Owned(size_t count) : lists(count), items(count), buffers((1 + 2 * count) * kMostBuffers) {
    for (size_t place = 0; place < count; ++place) {
      list_places.push_back(&lists[place]);
      item_places.push_back(&items[place]);
    }
  }
};

// A child that is moved elsewhere has no `release` any more in its parent.
template <typename Struct>
void release(Struct* exported) {
  for (int64_t place = 0; place < exported->n_children; ++place) {
    Struct* const child = exported->children[place];
    if (child->release) child->release(child);
  }
  exported->release = nullptr;
  delete static_cast<std::shared_ptr<Owned<Struct>>*>(exported->private_data);
}

// Lets a struct hold on to what it belongs to, and have children.
template <typename Struct>
void hold(Struct* held, const std::shared_ptr<Owned<Struct>>& owned, Struct** children, size_t count) {
  held->private_data = new std::shared_ptr<Owned<Struct>>(owned);
  held->release = release<Struct>;
  held->children = children;
  held->n_children = static_cast<int64_t>(count);
}

template <typename Struct>
Struct* link(const std::shared_ptr<Owned<Struct>>& owned) {
  const size_t count = owned->lists.size();
  auto batch = std::make_unique<Struct>(owned->batch);
  hold(batch.get(), owned, owned->list_places.data(), count);
  try {
    for (size_t place = 0; place < count; ++place) {
      hold(&owned->lists[place], owned, &owned->item_places[place], 1);
      hold(&owned->items[place], owned, static_cast<Struct**>(nullptr), 0);
    }
  } catch (...) {
    batch->release(batch.get());
    throw;
  }
  return batch.release();
}

void describe(ArrowSchema* schema, const char* format, const char* name) {
  schema->format = format;
  schema->name = name;
  schema->flags = 2;  // ARROW_FLAG_NULLABLE
}

ArrowSchema* schema_of(const std::vector<WantedFeature>& features) {
  const auto owned = std::make_shared<Owned<ArrowSchema>>(features.size());
  describe(&owned->batch, "+s", "");
  owned->batch.flags = 0;
  for (const WantedFeature& feature : features) owned->names.push_back(feature.name);
  for (size_t place = 0; place < features.size(); ++place) {
    describe(&owned->lists[place], "+L", owned->names[place].c_str());
    describe(&owned->items[place], kFormats[static_cast<size_t>(features[place].kind)], "item");
  }
  return link(owned);
}

ArrowArray* array_of(int64_t num_rows, const std::vector<WantedFeature>& features, ExampleColumns columns) {
  const auto owned = std::make_shared<Owned<ArrowArray>>(features.size());
  owned->columns = std::move(columns);
  const void** buffers = owned->buffers.data();
  const auto fill = [&](ArrowArray* array, int64_t length, int64_t null_count, std::initializer_list<const void*> pointers) {
    array->length = length;
    array->null_count = null_count;
    array->n_buffers = static_cast<int64_t>(pointers.size());
    array->buffers = buffers;
    for (const void* pointer : pointers) *buffers++ = pointer;
  };
  fill(&owned->batch, num_rows, 0, {nullptr});
  for (size_t place = 0; place < features.size(); ++place) {
    const ListColumn& column = owned->columns.columns[place];
    fill(&owned->lists[place], num_rows, column.null_count, {column.validity.data, column.offsets.data});
    if (features[place].kind == ValueKind::kBytes) {
      fill(&owned->items[place], column.num_values, 0, {nullptr, column.values.data, column.texts.data});
    } else {
      fill(&owned->items[place], column.num_values, 0, {nullptr, column.values.data});
    }
  }
  return link(owned);
}

}  // namespace

PyObject* export_lists(int64_t num_rows, const std::vector<WantedFeature>& features, ExampleColumns columns) {
  ArrowSchema* const schema = schema_of(features);
  ArrowArray* array = nullptr;
  try {
    array = array_of(num_rows, features, std::move(columns));
  } catch (...) {
    schema->release(schema);
    delete schema;
    throw;
  }
  return export_pair(schema, array);
}

}  // namespace native
