#include "export.h"

#include <initializer_list>
#include <new>

namespace native {
namespace {

// What an exported array owns: the pointers that ArrowArray.buffers points to. The first is the validity bitmap, or null without nulls.
struct Owned {
  Memory memory[3];
  const void* buffers[3];
};

void release_array(ArrowArray* array) {
  Owned* owned = static_cast<Owned*>(array->private_data);
  for (const Memory& memory : owned->memory) give_back(memory);
  delete owned;
  array->release = nullptr;
}

void release_schema(ArrowSchema* schema) { schema->release = nullptr; }

// Whoever imports a struct moves it out of the capsule and sets its `release` to null; else it is ours to release.
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

PyObject* export_array(const char* format, int64_t length, Memory buffer1, Memory buffer2, Memory validity, int64_t null_count) {
  Owned* owned = new (std::nothrow) Owned{{validity, buffer1, buffer2}, {validity.data, buffer1.data, buffer2.data}};
  ArrowArray* array = new (std::nothrow) ArrowArray{};
  ArrowSchema* schema = new (std::nothrow) ArrowSchema{};
  if (!owned || !array || !schema) {
    for (const Memory& memory : {validity, buffer1, buffer2}) give_back(memory);
    delete owned;
    delete array;
    delete schema;
    return PyErr_NoMemory();
  }
  schema->format = format;
  schema->name = "";
  schema->flags = 2;  // ARROW_FLAG_NULLABLE
  schema->release = release_schema;
  array->length = length;
  array->null_count = null_count;
  array->n_buffers = buffer2.data ? 3 : 2;
  array->buffers = owned->buffers;
  array->release = release_array;
  array->private_data = owned;
  return export_pair(schema, array);
}

PyObject* export_pair(ArrowSchema* schema, ArrowArray* array) {
  PyObject* array_capsule = PyCapsule_New(array, "arrow_array", destroy_array);
  if (!array_capsule) {
    array->release(array);
    delete array;
  }
  PyObject* schema_capsule = PyCapsule_New(schema, "arrow_schema", destroy_schema);
  if (!schema_capsule) {
    schema->release(schema);
    delete schema;
  }
  PyObject* pair = array_capsule && schema_capsule ? PyTuple_Pack(2, schema_capsule, array_capsule) : nullptr;
  Py_XDECREF(array_capsule);
  Py_XDECREF(schema_capsule);
  return pair;
}

}  // namespace native
