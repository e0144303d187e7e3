#include "export.h"

#include <atomic>
#include <new>
#include <utility>

#include "arrow.h"

namespace native {
namespace {

constexpr int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE

// The structs of an array and of its children, with all that they point to.
struct Node {
  ArrowSchema schema{};
  ArrowArray array{};
  std::vector<const void*> buffers;
  std::vector<Node> children;
  std::vector<ArrowSchema*> child_schemas;
  std::vector<ArrowArray*> child_arrays;
};

// An importer may keep some columns of a batch and release the others, so all of it lives as long as one of its structs.
struct Tree {
  std::unique_ptr<Result> result;
  Node root;
  std::atomic<size_t> held{0};  // structs that are not released yet
};

template <typename Struct>
void release(Struct* exported) {
  for (int64_t place = 0; place < exported->n_children; ++place) {
    Struct* const child = exported->children[place];
    if (child->release) child->release(child);  // an importer has cleared it in a child that it moved
  }
  exported->release = nullptr;
  Tree* const tree = static_cast<Tree*>(exported->private_data);
  if (--tree->held == 0) delete tree;
}

// Fills a node that will not move any more.
void fill(Node* node, const Result& result, Tree* tree) {
  const size_t count = result.children.size();
  node->children = std::vector<Node>(count);
  for (size_t place = 0; place < count; ++place) {
    fill(&node->children[place], *result.children[place], tree);
    node->child_schemas.push_back(&node->children[place].schema);
    node->child_arrays.push_back(&node->children[place].array);
  }
  for (const Memory& memory : result.buffers) node->buffers.push_back(memory.data);
  ArrowSchema& schema = node->schema;
  schema.format = result.format.c_str();
  schema.name = result.name.c_str();
  schema.flags = kNullable;
  schema.n_children = static_cast<int64_t>(count);
  schema.children = node->child_schemas.data();
  schema.release = release<ArrowSchema>;
  schema.private_data = tree;
  ArrowArray& array = node->array;
  array.length = result.length;
  array.null_count = result.null_count;
  array.n_buffers = static_cast<int64_t>(node->buffers.size());
  array.n_children = static_cast<int64_t>(count);
  array.buffers = node->buffers.data();
  array.children = node->child_arrays.data();
  array.release = release<ArrowArray>;
  array.private_data = tree;
  tree->held += 2;
}

// An importer moves a struct out of its capsule and clears its `release`; otherwise the capsule releases it.
template <typename Struct>
void destroy(PyObject* capsule, const char* name) {
  Struct* exported = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name));
  if (!exported) return;
  if (exported->release) exported->release(exported);
  delete exported;
}

void destroy_array(PyObject* capsule) { destroy<ArrowArray>(capsule, "arrow_array"); }
void destroy_schema(PyObject* capsule) { destroy<ArrowSchema>(capsule, "arrow_schema"); }

}  // namespace

PyObject* export_result(std::unique_ptr<Result> result) {
  std::unique_ptr<ArrowSchema> schema;
  std::unique_ptr<ArrowArray> array;
  try {
    auto tree = std::make_unique<Tree>();
    tree->result = std::move(result);
    fill(&tree->root, *tree->result, tree.get());
    schema = std::make_unique<ArrowSchema>(tree->root.schema);
    array = std::make_unique<ArrowArray>(tree->root.array);
    tree.release();
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  PyObject* schema_capsule = PyCapsule_New(schema.get(), "arrow_schema", destroy_schema);
  if (schema_capsule) {
    schema.release();
  } else {
    schema->release(schema.get());
  }
  PyObject* array_capsule = PyCapsule_New(array.get(), "arrow_array", destroy_array);
  if (array_capsule) {
    array.release();
  } else {
    array->release(array.get());
  }
  PyObject* pair = schema_capsule && array_capsule ? PyTuple_Pack(2, schema_capsule, array_capsule) : nullptr;
  Py_XDECREF(schema_capsule);
  Py_XDECREF(array_capsule);
  return pair;
}

PyObject* export_array(const char* format, int64_t length, Memory buffer1, Memory buffer2, Memory validity, int64_t null_count) {
  try {
    std::vector<Memory> buffers = {validity, buffer1};
    if (buffer2.data) buffers.push_back(buffer2);
    return export_result(std::make_unique<Result>(format, length, std::move(buffers), null_count));
  } catch (const std::bad_alloc&) {
    for (const Memory& memory : {validity, buffer1, buffer2}) give_back(memory);
    return PyErr_NoMemory();
  }
}

}  // namespace native
