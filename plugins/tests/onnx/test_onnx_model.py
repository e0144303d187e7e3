"""A dataset's ONNX model gives what its encoder gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import beam_pipelines as bp
from beam_pipelines.cli.main import cli
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.apply import to_input
from beam_pipelines.reader.columns import Ragged

pytestmark = pytest.mark.end_to_end

INEXPRESSIBLE = {
    "b": "column 'b' has bytes",
    "t_hash": "hash_bucket: ONNX has no operator that reads the bytes of a text",
    "m_id": "vocabulary: num_oov is 2",
    "t_tokens": "tokenize: it takes or gives any number of texts",
    "t_bag": "tokenize: it takes or gives any number of texts",
    "t_tf": "tokenize: it takes or gives any number of texts",
    "route": "cross: ONNX has no operator",
    "words": "the lists of column 'words' have several lengths",
    "many": "the lists of column 'words' have several lengths",
    "raw": "vector: ONNX has no operator that makes bytes",
}


@pytest.fixture(scope="module")
def names(folder):
    """The features that ONNX expresses."""
    return [name for name in bp.open(folder).encoder().features if name not in INEXPRESSIBLE]


def fed(table: pa.Table, run: Any) -> dict[str, Any]:
    """Returns raw columns as a session takes them."""
    wanted = {item.name for item in run.get_inputs()}
    feeds: dict[str, Any] = {}
    for name in table.column_names:
        if f"raw_{name}" not in wanted:
            continue
        array = to_input(table[name].combine_chunks())
        is_list = pa.types.is_list(array.type)
        flat = array.flatten() if is_list else array
        fill = "?" if pa.types.is_string(flat.type) else 7
        values = (flat.fill_null(fill) if flat.null_count else flat).to_numpy(zero_copy_only=False)
        feeds[f"raw_{name}"] = values.reshape(len(array), -1) if is_list else values
        feeds[f"raw_{name}_is_present"] = array.is_valid().to_numpy(zero_copy_only=False)
    return {name: values for name, values in feeds.items() if name in wanted}


def test_model_and_encoder_give_the_same(folder, names):
    """Integers and texts are equal, floats within one last place."""
    dataset = bp.open(folder)
    model = dataset.to_onnx(names)
    assert {(item.domain, item.version) for item in model.opset_import} == {
        ("", 17),
        ("ai.onnx.ml", 3),
    }
    run = onnxruntime.InferenceSession(model.SerializeToString())
    table = pq.read_table(Path(folder).parent / "rows.parquet").drop_columns(["b"])
    found = dict(
        zip([item.name for item in run.get_outputs()], run.run(None, fed(table, run)), strict=True)
    )
    expected = dataset.encoder(names)(table)
    ragged = {name for name, values in expected.items() if isinstance(values, Ragged)}
    assert found.keys() == expected.keys() | {f"{name}_is_present" for name in ragged}
    for name, values in expected.items():
        got = found[name]
        if name in ragged:
            is_present = found[f"{name}_is_present"]
            assert is_present.tolist() == values.is_present.tolist(), name
            assert not got[~is_present].astype(bool).any(), name
            got, values = got[is_present], values.values  # noqa: PLW2901
        if got.dtype == object:
            assert [text.encode() for text in got] == values.tolist(), name
            continue
        assert (got.dtype, got.shape) == (values.dtype, values.shape), name
        if got.dtype == np.int64:
            assert got.tolist() == values.tolist(), name
        else:
            np.testing.assert_array_max_ulp(
                np.nan_to_num(got, nan=5, posinf=6), np.nan_to_num(values, nan=5, posinf=6), 1
            )


def test_refused_values_fail_in_the_model(folder):
    """What the encoder refuses fails in the model, with the reason."""
    dataset = bp.open(folder)
    run = onnxruntime.InferenceSession(dataset.to_onnx(["numbers"]).SerializeToString())
    table = pq.read_table(Path(folder).parent / "rows.parquet").slice(0, 2)
    wrong = table.set_column(4, "m", pa.array([1, 2**24 + 1]))
    with pytest.raises(Exception, match="no float32 equals an integer of 'm'"):
        run.run(None, fed(wrong, run))
    with pytest.raises(DataError, match="no float32 equals an integer of 'm'"):
        dataset.encoder(["numbers"])(wrong)


def test_inexpressible_features_are_listed(folder, names):
    """The error has each feature with its reason, and what to export."""
    with pytest.raises(DataError) as caught:
        bp.open(folder).to_onnx()
    message = str(caught.value)
    for name, reason in INEXPRESSIBLE.items():
        assert f"\n  {name}: {reason}" in message
    assert message.count("\n") == len(INEXPRESSIBLE) + 1
    assert message.endswith(f"--only {','.join(names)}")
    with pytest.raises(
        DataError, match=r"cannot express\.\n  words: .*\nTake bp\.open\(.*\)\.encoder\(\)"
    ):
        bp.open(folder).to_onnx(["words"])
    with pytest.raises(ValueError, match="Did you mean 'f_bucket'"):
        bp.open(folder).to_onnx(["f_buckets"])


def test_the_command_writes_a_model(folder, tmp_path):
    """``export --onnx`` writes a file, and replaces it only when told."""
    target = tmp_path / "prefix.onnx"
    command = ["export", folder, "--onnx", str(target), "--only", "f,m_normal"]
    run = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert run.exit_code == 0
    assert "3 inputs, 3 outputs, opset 17" in run.output
    model = onnx.load(target)
    assert [item.name for item in model.graph.output] == ["f", "f_is_present", "m_normal"]
    again = CliRunner().invoke(cli, command)
    assert "found a file" in str(again.exception)
    assert CliRunner().invoke(cli, [*command, "--overwrite"]).exit_code == 0
    unknown = CliRunner().invoke(cli, [*command[:-1], "g,m_norma", "--overwrite"])
    assert "--only g,m_norma: " in str(unknown.exception)
    assert "Did you mean 'm_normal'" in str(unknown.exception)
    assert "--onnx" in CliRunner().invoke(cli, ["export", folder]).output


def test_a_missing_package_is_explained(folder, monkeypatch):
    """Without ``onnx`` the error says what to install."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnx" else find(name)
    )
    with pytest.raises(DataError, match=r"not installed.*pip install onnx"):
        bp.open(folder).to_onnx(["f"])
