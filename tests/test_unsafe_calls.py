"""Few calls may run code of a file; each has a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_budget import trees

MAIN = "beam_pipelines/"
# Names that may run code by their argument, whatever they are of; and those of modules.
UNSAFE = {"eval", "exec", "__import__", "CDLL", "Unpickler", "_Unpickler", "read_pickle"}
UNSAFE |= {"unsafe_load", "full_load", "load_extension", "enable_load_extension", "load_model"}
OF_MODULES = {
    **{key: {"load", "loads"} for key in ("pickle", "pickler", "cloudpickle", "dill", "marshal")},
    **{key: {"load"} for key in ("torch", "joblib", "np", "numpy", "saved_model")},
    "yaml": {"load", "load_all"},
    "shelve": {"open"},
    "runpy": {"run_path", "run_module"},
    "os": {"system", "popen", "execv", "execvp", "execve", "spawnv", "posix_spawn"},
}
ALLOWED = {
    f"{MAIN}analysis/statistics/messages.py:Unpickler": "finds statistics only",
    f"{MAIN}core/_native/images.py:CDLL": "Pillow's own library",
    f"{MAIN}core/arrow/memory.py:CDLL": "the C library",
    f"{MAIN}core/process/pickling.py:loads": "a step of the job, which is code",
    f"{MAIN}files/beam/file_checksums.py:loads": "a run's file, by its SHA-256",
    f"{MAIN}runners/beam_patches.py:loads": "Beam's steps, in its workers",
    f"{MAIN}serving/__main__.py:load": "a pipe from the process that started this one",
    f"{MAIN}serving/write.py:load": "the run's own preprocessing_fn, analyzed",
    f"{MAIN}sources/files/file_list.py:loads": "a run's file, by its SHA-256",
    f"{MAIN}sources/images/safe_pickle.py:_Unpickler": "finds arrays only",
    f"{MAIN}transforms/preprocessing/function.py:exec": "the recipe's preprocessing_fn",
}


def unsafe_uses(tree: ast.AST) -> Iterator[str]:
    """Yields the names of what may run code."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            of = getattr(node, "value", None)
            module = getattr(of, "id", getattr(of, "attr", ""))
            if name in UNSAFE | OF_MODULES.get(module, set()):
                yield name
        elif isinstance(node, ast.ImportFrom):
            known = UNSAFE | OF_MODULES.get(node.module or "", set())
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
            yield from [node.arg] * (getattr(node.value, "value", None) is not False)


def test_calls_that_run_code_are_known() -> None:
    """The list has all that may run code, and no more."""
    found = {f"{path}:{name}" for path, tree in trees().items() for name in unsafe_uses(tree)}
    assert found == ALLOWED.keys()


def test_each_way_is_seen() -> None:
    """Ways to run code are seen, and safe calls are not."""
    ways = """from pickle import loads; pickle.load(f); np.load(f); eval('1'); torch.load(f)
yaml.load(f, yaml.Loader); os.system('x'); run(x, shell=True); open_it(f, allow_pickle=y)
tf.saved_model.load(f); A = pickle.Unpickler"""
    assert len(list(unsafe_uses(ast.parse(ways)))) == 11
    safe = (
        "yaml.safe_load(f); json.loads(f); run(x, shell=False); re.compile('x'); platform.system()"
    )
    assert list(unsafe_uses(ast.parse(safe))) == []
