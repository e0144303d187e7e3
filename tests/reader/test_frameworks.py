"""Batches of PyTorch and JAX: shared memory, types, devices, and missing packages."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import beam_pipelines as bp
from tests.reader.datasets import write_records
from tests.reader.test_process import leaves
from tests.support.wire import example

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "pair" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 2 } } }
feature { name: "list" type: INT }
feature { name: "word" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""
ROWS = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 64 rows, the last with a large number."""
    rows = [
        example(
            {
                "id": ("int64", [number if number < ROWS - 1 else 2**40]),
                "pair": ("float", [number, -number]),
                "list": ("int64", list(range(number % 4)) if number % 5 else None),
                "word": ("bytes", [b"%d" % number]),
            }
        )
        for number in range(ROWS)
    ]
    return write_records(tmp_path_factory.mktemp("frameworks"), SCHEMA, rows)


def read(folder, as_, **options):
    if as_ in {"torch", "jax"} and "word" in options.get("columns", ["word"]):
        options["lookup"] = {"word": 50}
    return bp.open(folder).batches("train", 16, shuffle=False, as_=as_, **options)


def test_torch(folder):
    """Tensors have the arrays' values and types, and share their memory."""
    torch = pytest.importorskip("torch")
    options = {"types": {"id": "int64", "pair": "float16"}, "lookup": {"word": 50}}
    for batch, expected in zip(
        read(folder, "torch", **options), read(folder, "numpy", **options), strict=True
    ):
        assert batch["id"].dtype == torch.int64
        assert batch["pair"].dtype == torch.float16
        for name in ("id", "pair", "word"):
            assert batch[name].tolist() == expected[name].tolist()
        for part, own in zip(batch["list"], expected["list"], strict=True):
            assert part.tolist() == own.tolist()
        shared = batch["id"].numpy()
        shared += 1
        assert (batch["id"] == torch.from_numpy(expected["id"]) + 1).all()


def test_ragged_tensors_of_torch(folder):
    """Ragged tensors become nested ones without a copy, and sparse ones."""
    torch = pytest.importorskip("torch")
    batch = next(read(folder, "torch"))["list"]
    nested = batch.nested()
    assert nested.layout == torch.jagged
    assert nested.values().data_ptr() == batch.values.data_ptr()
    expected = [list(range(number % 4)) if number % 5 else [] for number in range(16)]
    assert [row.tolist() for row in nested.unbind()] == expected
    ones = torch.ones(len(batch.values))
    bags = torch.sparse_csr_tensor(batch.offsets, batch.values, ones, (16, 4)).to_dense()
    assert [row.nonzero().flatten().tolist() for row in bags] == expected
    places = [place for place, row in enumerate(expected) for _ in row]
    assert batch.segments().tolist() == places
    assert next(read(folder, "numpy"))["list"].segments().tolist() == places


def test_no_tensors_to_nest(folder):
    """Arrays of another kind are no nested tensor."""
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"nested: found values of type ndarray, .* as_='torch'"):
        next(read(folder, "numpy"))["list"].nested()


def test_keyed_tensors_of_torchrec(folder):
    """TorchRec takes the values and lengths without a copy."""
    torchrec = pytest.importorskip("torchrec")
    keys = ["list", "word"]
    batch = next(read(folder, "torch", keyed={"ids": keys}))["ids"]
    found = torchrec.KeyedJaggedTensor(keys, batch.values, lengths=batch.lengths)
    assert found.values().data_ptr() == batch.values.data_ptr()
    assert found.lengths().data_ptr() == batch.lengths.data_ptr()
    single = next(read(folder, "torch"))
    assert found["list"].values().tolist() == single["list"].values.tolist()
    assert found["list"].offsets().tolist() == single["list"].offsets.tolist()
    assert found["word"].values().tolist() == single["word"].tolist()


def test_jax(folder):
    """Arrays have the numpy arrays' values; integers are int32."""
    jax = pytest.importorskip("jax")
    options = {"columns": ["pair", "list", "word"], "lookup": {"word": 50}}
    for batch, expected in zip(
        read(folder, "jax", **options), read(folder, "numpy", **options), strict=True
    ):
        assert isinstance(batch["pair"], jax.Array)
        assert batch["pair"].tolist() == expected["pair"].tolist()
        assert batch["list"].values.dtype == np.int32
        for part, own in zip(batch["list"], expected["list"], strict=True):
            assert part.tolist() == own.tolist()
        assert batch["word"].tolist() == expected["word"].tolist()


def test_segments_of_jax(folder):
    """Segments sum the values of each row within a compiled step."""
    jax = pytest.importorskip("jax")
    batch = next(read(folder, "jax", columns=["list", "pair"]))
    own = next(read(folder, "jax", columns=["list"], keyed={"ids": ["list"]}))

    @jax.jit
    def sums(ragged):
        return jax.ops.segment_sum(ragged.values, ragged.segments(), 16)

    expected = [sum(range(number % 4)) if number % 5 else 0 for number in range(16)]
    assert sums(batch["list"]).tolist() == sums(own["ids"]).tolist() == expected


def test_jax_keeps_integers(folder):
    """An integer beyond 32 bits is an error, unless JAX has int64."""
    jax = pytest.importorskip("jax")
    with pytest.raises(bp.DataError, match=r"record 31: feature 'id': found 1,099,511,627,776"):
        list(read(folder, "jax"))
    with pytest.raises(ValueError, match=r"'int64' for feature 'id', but JAX is set to 32 bits"):
        read(folder, "jax", types={"id": "int64"})
    jax.config.update("jax_enable_x64", True)
    try:
        *_, last = read(folder, "jax", columns=["id"])
        assert last["id"].tolist()[-1] == 2**40
    finally:
        jax.config.update("jax_enable_x64", False)


SHARDED = """
import sys
import jax
import numpy as np
import beam_pipelines as bp

assert len(jax.devices()) == 4
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
lists = dict(padding=0, lengths={"list": 2})
wanted = dict(shuffle=False, columns=["pair", "word", "list"], lookup={"word": 50}, **lists)
dataset = bp.open(sys.argv[1])
with dataset.batches("train", 16, as_="jax", sharding=sharding, **wanted) as reader:
    for batch, expected in zip(reader, dataset.batches("train", 16, **wanted), strict=True):
        assert batch["pair"].sharding == sharding
        assert [shard.data.shape for shard in batch["pair"].addressable_shards] == [(4, 2)] * 4
        assert batch["pair"].tolist() == expected["pair"].tolist()
        for name in ("word", "list"):
            assert batch[name].tolist() == expected[name].tolist()
for options, message in (
    (dict(batch_size=10), "batches of 10 rows of feature 'pair', which it does not divide"),
    (dict(batch_size=24), None),
    (dict(batch_size=12), None),
    (dict(batch_size=60, columns=["pair"], lookup=None, lengths=None), None),
    (dict(batch_size=4, rank=0, world_size=5), "found 4 rows in the last batch"),
    (dict(lengths=None), "feature 'list', whose batches have several lengths"),
    (dict(keyed={"ids": ["word"]}), "feature 'word', whose batches have several lengths"),
    (dict(as_="numpy"), "sharding: found it with as_='numpy'"),
):
    try:
        dataset.batches("train", **{"as_": "jax", "sharding": sharding, **wanted, **options})
    except ValueError as error:
        assert message and message in str(error), (options, error)
    else:
        assert not message, options
"""


def test_sharded_jax(folder):
    """Global arrays are divided among the devices of a mesh."""
    pytest.importorskip("jax")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", SHARDED, folder], check=True, env=os.environ | flags)


@pytest.mark.parametrize("as_", ["numpy", "torch", "jax", "arrow", "records"])
def test_rows_by_number(folder, as_):
    """Rows by their numbers have the form of batches."""
    if as_ in {"torch", "jax"}:
        pytest.importorskip(as_)
    columns = {} if as_ == "records" else {"columns": ["pair", "list", "word"]}
    with read(folder, as_, **columns) as reader:
        batch = next(reader)
        found = reader.take(range(16))
    assert list(found) == list(batch)
    for name, value in found.items():
        for part, own in zip(leaves(value), leaves(batch[name]), strict=True):
            assert type(part) is type(own)
            assert part.tolist() == own.tolist()


@pytest.mark.parametrize(("as_", "name"), [("torch", "PyTorch"), ("jax", "JAX")])
def test_missing_packages(folder, monkeypatch, as_, name):
    """A package that is not installed is named."""
    monkeypatch.setitem(sys.modules, as_, None)
    with pytest.raises(ValueError, match=f"{name} cannot be imported .* Install {as_}, or use"):
        read(folder, as_)


def test_device_of_other_kinds(folder):
    """Batches of numpy, and shardings, are on no CUDA device."""
    with pytest.raises(ValueError, match="device: found it with as_='numpy'"):
        read(folder, "numpy", device="cuda")
    pytest.importorskip("jax")
    with pytest.raises(ValueError, match="device: found it with 'sharding'"):
        read(folder, "jax", device="cuda", sharding=object())


def test_device_without_cuda(folder):
    """Without a CUDA device, asking for one says so."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ValueError, match="device: found no CUDA device"):
        read(folder, "torch", device="cuda")


@pytest.mark.parametrize("device", ["cpu", "gpu", "cuda:99", 1.5])
def test_wrong_device(folder, device):
    """Another device than those of CUDA is refused."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    with pytest.raises(ValueError, match=f"device: found {device!r}, expected 'cuda', or 'cuda:0'"):
        read(folder, "torch", device=device)


def test_cuda(folder):
    """Tensors on a CUDA device have the values of the host's."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    options = {"types": {"pair": "float16"}, "epochs": 3, "keyed": {"ids": ["id", "list"]}}
    same = read(folder, "torch", **options)
    with read(folder, "torch", device="cuda", **options) as reader:
        for _ in range(3):
            count = 0
            for batch, expected in zip(reader, same, strict=True):
                for name, value in expected.items():
                    for part, own in zip(leaves(batch[name]), leaves(value), strict=True):
                        assert part.is_cuda
                        assert part.dtype == own.dtype
                        assert part.tolist() == own.tolist()
                assert reader.state_dict() == same.state_dict()
                count += 1
            assert count == 12
        next(reader)
        reader.load_state_dict(same.state_dict())
        assert next(reader)["pair"].tolist() == next(same)["pair"].tolist()
        assert reader.take([5, 3])["pair"].tolist() == [[5, -5], [3, -3]]


def test_jax_on_cuda(folder):
    """JAX takes tensors of a CUDA device without a copy."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    if not torch.cuda.is_available() or jax.default_backend() != "gpu":
        pytest.skip("needs a CUDA device, and a JAX for it")
    with read(folder, "jax", device="cuda") as reader:
        for batch, expected in zip(reader, read(folder, "numpy"), strict=True):
            for name, value in expected.items():
                for part, own in zip(leaves(batch[name]), leaves(value), strict=True):
                    assert part.platform() == "gpu"
                    assert part.tolist() == own.tolist()
