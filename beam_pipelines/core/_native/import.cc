#define PY_SSIZE_T_CLEAN
#include "import.h"

#include <exception>
#include <new>

#include "column.h"

namespace native {

bool import_pair(PyObject* pair, Imported* imported) {
  PyObject *schema, *array;
  if (!PyArg_ParseTuple(pair, "OO", &schema, &array)) return false;
  imported->schema = static_cast<const ArrowSchema*>(PyCapsule_GetPointer(schema, "arrow_schema"));
  imported->array = static_cast<const ArrowArray*>(PyCapsule_GetPointer(array, "arrow_array"));
  if (!imported->schema || !imported->array) return false;
  if (imported->schema->release && imported->array->release) return true;
  PyErr_SetString(PyExc_ValueError, "found an Arrow array that was imported before, expected a fresh one");
  return false;
}

bool run(const std::function<void()>& kernel) {
  PyObject* type = nullptr;
  std::string message;
  PyThreadState* state = PyEval_SaveThread();
  try {
    kernel();
  } catch (const UnknownType& error) {
    type = PyExc_TypeError;
    message = error.what();
  } catch (const InvalidData& error) {
    type = PyExc_ValueError;
    message = error.what();
  } catch (const std::bad_alloc&) {
    type = PyExc_MemoryError;
    message = "there is not enough memory for the result";
  } catch (const std::exception& error) {
    type = PyExc_RuntimeError;
    message = error.what();
  }
  PyEval_RestoreThread(state);
  if (!type) return true;
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  if (text) PyErr_SetObject(type, text);
  Py_XDECREF(text);
  return false;
}

bool read_names(PyObject* list, std::vector<std::string>* names) {
  for (Py_ssize_t place = 0; place < PyList_Size(list); ++place) {
    char* text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(PyList_GetItem(list, place), &text, &size) < 0) return false;
    names->emplace_back(text, static_cast<size_t>(size));
  }
  return true;
}

std::vector<int64_t> read_rows(const Imported& array) {
  const Column column = read_column(*array.schema, *array.array, "rows", 0, array.array->length);
  if (column.kind != Kind::kInt64 && column.kind != Kind::kInt32) throw UnknownType("rows");
  std::vector<int64_t> rows(static_cast<size_t>(column.length));
  for (int64_t place = 0; place < column.length; ++place) {
    if (!column.is_valid(place)) throw InvalidData("rows: found a null at place " + std::to_string(place) + ", expected a row");
    rows[static_cast<size_t>(place)] = column.kind == Kind::kInt64 ? column.value<int64_t>(place) : column.value<int32_t>(place);
  }
  return rows;
}

}  // namespace native
