"""The click-through example from log to model.

It joins three sources, has a vector of numbers as floats and as bytes, has days, and trains on two
devices.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.dataset import loader

pytestmark = pytest.mark.end_to_end

DAYS = ("2026-11-21", "2026-11-22", "2026-11-23")
SMALL = ["--rows=3000", "--users=200", "--articles=60"]
LENGTH = 10  # of the vector `numbers`


def generate(repository: Path, folder: Path, *arguments: str) -> None:
    """Runs the example's generator."""
    command = [
        sys.executable,
        repository / "examples" / "ctr" / "generate.py",
        "--output",
        folder,
        *arguments,
    ]
    subprocess.run(command, check=True, capture_output=True)


def write_recipe(
    repository: Path, folder: Path, numbers: str = "list", name: str = "recipe"
) -> str:
    """Copies a recipe of the example for the data in ``folder/data``.

    The vector is a list or bytes.
    """
    text = (repository / "examples" / "ctr" / f"{name}.yaml").read_text()
    assert text.count("as: list") == 1
    text = text.replace("../../.demo/ctr-data", str(folder / "data")).replace(
        "../../schemas", str(repository / "schemas")
    )
    (folder / f"{name}.yaml").write_text(text.replace("as: list", f"as: {numbers}"))
    return str(folder / f"{name}.yaml")


@pytest.fixture(scope="module")
def folder(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some clicks of two days; the first is converted (``out``)."""
    folder = tmp_path_factory.mktemp("ctr")
    generate(repository, folder / "data", *SMALL, "--days=2")
    recipe, output = write_recipe(repository, folder), str(folder / "out" / "{date}")
    assert run(["convert", recipe, "--date", DAYS[0], "--output", output, "--quiet"]) == 0
    return folder


def joined(folder: Path, date: str) -> pd.DataFrame:
    """The log of a day joined with users and articles, by pandas."""
    clicks = pd.read_json(
        folder / "data" / "clicks" / f"{date}.jsonl", lines=True, convert_dates=["time"]
    )
    users = pd.read_parquet(folder / "data" / "users.parquet")
    articles = pd.read_csv(folder / "data" / "articles.csv")
    return clicks.merge(users, on="user", how="left").merge(articles, on="article", how="inner")


def test_the_examples_are_the_joined_clicks(folder: Path) -> None:
    """Every click is one example with the values of all three tables.

    These are reader, hour, age (known or not), premium, paywall and label.
    """
    rows = joined(folder, DAYS[0])
    angle = 2 * np.pi * rows.time.dt.hour / 24
    expected = pd.DataFrame(
        {
            "user": tf.strings.to_hash_bucket_fast(rows.user.tolist(), 16384).numpy(),
            "sin": np.sin(angle).astype(np.float32),
            "cos": np.cos(angle).astype(np.float32),
            "age_missing": rows.age.isna().astype(np.float32),
            "premium": rows.premium.fillna(value=False).astype(np.float32),
            "paywalled": rows.paywalled.astype(np.float32),
            "clicked": rows.clicked.astype(np.int64),
        }
    )
    found = []
    for split in ("train", "eval"):
        for features, label in loader.load(folder / "out" / DAYS[0], split, shuffle=False):
            numbers = features["numbers"].numpy()
            assert numbers.shape[1] == LENGTH
            columns = [
                features["user"][:, 0],
                *(numbers[:, place] for place in (0, 1, 4, 6, 9)),
                label[:, 0],
            ]
            found.append(pd.DataFrame(dict(zip(expected.columns, columns, strict=True))))
    in_order = [
        frame.round(5).sort_values(list(frame.columns), ignore_index=True)
        for frame in (expected, pd.concat(found))
    ]
    assert len(in_order[0]) == 3000
    pd.testing.assert_frame_equal(*in_order, check_dtype=False, atol=2e-5)


def test_histories_are_what_was_read_before(folder: Path, repository: Path) -> None:
    """Counts and lists are those of a loop; nothing comes from later."""
    text = Path(write_recipe(repository, folder, name="history")).read_text()
    counts = ["reads", "reads_today", "sections", "same_reads", "same_reads_today"]
    kept = ", ".join(["time", "user", "article_section", "last_sections", *counts])
    joins = text.partition("\nderive:")[0]
    (folder / "raw.yaml").write_text(f"{joins}\nkeep: [{kept}]\nsplit: {{train: 1.0}}\n")
    output = str(folder / "raw")
    command = ["convert", str(folder / "raw.yaml"), "--date", DAYS[0], "--output", output]
    assert run([*command, "--quiet"]) == 0
    reads = pd.concat(map(pd.read_parquet, sorted((folder / "data" / "reads").glob("*"))))
    assert (reads.time > DAYS[1]).any()
    found = bp.open(output).to_pandas(300)
    assert len(found) == 300
    for row in found.itertuples():
        age = pd.to_datetime(row.time, unit="us") - reads.time
        own = reads[(reads.user == as_text(row.user)) & (age > pd.Timedelta(0))]
        age = pd.to_datetime(row.time, unit="us") - own.time
        week = own[age <= pd.Timedelta("7d")]
        day = own[age <= pd.Timedelta("1d")]
        same = [(each.section == as_text(row.article_section)).sum() for each in (week, day)]
        assert [getattr(row, name) for name in counts] == [
            *(len(week), len(day), week.section.nunique()),
            *same,
        ]
        assert list(map(as_text, row.last_sections)) == week.section.tolist()[-20:]


def as_text(value: bytes | str) -> str:
    """Returns a text of a dataset."""
    return value.decode() if isinstance(value, bytes) else value


def test_the_generator_repeats_itself(folder: Path, repository: Path, tmp_path: Path) -> None:
    """The generator gives the same files for the same seed.

    A day does not depend on the other days of the run.
    """
    generate(repository, tmp_path, *SMALL, "--days=1", f"--date={DAYS[1]}")
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) == 3 + 8
    for path in made:
        assert (tmp_path / path).read_bytes() == (folder / "data" / path).read_bytes()


def train(repository: Path, output: Path, *arguments: str) -> list[tuple[float, float, float]]:
    """Runs the training example on two virtual devices.

    Returns:
      Accuracy, log loss and AUC of the base rate and the model, split by split.
    """
    command = [
        sys.executable,
        repository / "examples" / "train_ctr.py",
        *arguments,
        "--cpus=2",
        "--output",
        output,
    ]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "2 replicas" in finished.stdout
    figures = re.findall(
        r"^(?:majority class|model) +([0-9.]+) +([0-9.]+) +([0-9.]+)$",
        finished.stdout,
        re.MULTILINE,
    )
    return [tuple(float(figure) for figure in row) for row in figures]


def raw_examples(rows: pd.DataFrame) -> list[bytes]:
    """Returns joined clicks as tf.Examples, as a server gets them.

    Columns are texts and numbers, without the label. A null has no feature.
    """
    published = pd.to_datetime(rows.published)
    columns = {
        "time": rows.time.astype("datetime64[us]").astype("int64"),
        "user": rows.user,
        "article": rows.article,
        "position": rows.position,
        "device": rows.device,
        "referrer": rows.referrer,
        "user_age": rows.age,
        "user_country": rows.country,
        "user_premium": rows.premium.astype("boolean").astype("Int64"),
        "article_section": rows.section,
        "article_words": rows.words,
        "article_paywalled": rows.paywalled.astype("int64"),
        "article_days": (rows.time - published).dt.total_seconds() // 60 / 1440.0,
        "user_days": (rows.time.dt.normalize() - pd.to_datetime(rows.since)).dt.days,
    }
    whole = {"time", "position", "user_age", "user_premium", "article_words", "article_paywalled"}
    whole |= {"user_days"}
    found = []
    for row in pd.DataFrame(columns).itertuples(index=False):
        example = tf.train.Example()
        for name, value in row._asdict().items():
            if pd.isna(value):
                continue
            feature = example.features.feature[name]
            if isinstance(value, str):
                feature.bytes_list.value.append(value.encode())
            elif name in whole:
                feature.int64_list.value.append(int(value))
            else:
                feature.float_list.value.append(value)
        found.append(example.SerializeToString())
    return found


def check_serving(folder: Path, day: Path, raw: dict[str, tf.TensorSpec]) -> None:
    """Checks that the SavedModel gives raw clicks the scores of the model.

    The model scores the encoded examples of the same day.
    """
    model = tf.keras.models.load_model(folder / "model" / "model.keras")
    graph = tf.saved_model.load(str(folder / "model" / "serving"))
    predict = graph.signatures["serving_default"]
    clicks = raw_examples(joined(folder, day.name))
    served = predict(examples=tf.constant(clicks))["clicked"].numpy()
    names = list(model.input)
    batches = loader.load(day, features=names, label=False, shuffle=False).map(
        lambda batch: (
            batch
            | {name: tf.io.decode_raw(batch[name][:, 0], row.dtype) for name, row in raw.items()}
        )
    )
    scores = np.concatenate([model(batch, training=False) for batch in batches])
    assert len(served) == len(scores) == 20000
    assert served.std() > 0.1
    np.testing.assert_allclose(np.sort(served, axis=0), np.sort(scores, axis=0), atol=1e-5)
    arguments = graph.signatures["from_tensors"].structured_input_signature[1]
    assert {"time", "article_days", "user_age_row_lengths"} < set(arguments)
    assert "clicked" not in arguments


@pytest.mark.slow
@pytest.mark.parametrize("numbers", ["list", "bytes"])
def test_the_model_beats_the_majority_class(repository: Path, tmp_path: Path, numbers: str) -> None:
    """The model beats the base rate after two days of training.

    It does so by far, on rows that were held back or are of a third day.
    Its SavedModel scores the raw clicks of that day.
    """
    generate(repository, tmp_path / "data", "--rows=20000", "--users=400", "--articles=100")
    recipe, output = (
        write_recipe(repository, tmp_path, numbers=numbers),
        str(tmp_path / "out" / "{date}"),
    )
    assert run(["convert", recipe, "--date", DAYS[0], "--output", output, "--quiet"]) == 0
    folders = [str(tmp_path / "out" / date) for date in DAYS]
    for date, split in zip(DAYS[1:], ("train", "test"), strict=True):
        command = f"transform {folders[0]} --date {date} --split {split} --output {output} --quiet"
        assert run(command.split()) == 0
    raw = [f"--raw=numbers={LENGTH}"] if numbers == "bytes" else []
    figures = train(
        repository, tmp_path / "model", *folders[:2], "--test", folders[2], "--batch_size=256", *raw
    )
    assert len(figures) == 4
    for (majority, base_loss, _), (accuracy, loss, auc) in (figures[:2], figures[2:]):
        assert accuracy > majority + 0.03
        assert loss < base_loss - 0.08
        assert auc > 0.75
    as_bytes = {"numbers": tf.TensorSpec([LENGTH], tf.float32)} if numbers == "bytes" else {}
    check_serving(tmp_path, Path(folders[2]), as_bytes)


@pytest.mark.slow
def test_it_trains_on_libsvm_rows(repository: Path, tmp_path: Path) -> None:
    """The model learns from sparse rows of a libsvm file.

    Labels are -1 and 1, and values are embedded one by one.
    """
    random = np.random.default_rng(3)
    weights, lines = random.normal(0, 1.5, 200), []
    for _ in range(5000):
        places, values = np.sort(random.choice(200, 8, replace=False)), random.integers(1, 3, 8)
        is_one = random.random() < 1 / (1 + np.exp(0.5 - (weights[places] * values).sum()))
        lines.append(
            f"{'1' if is_one else '-1'} "
            + " ".join(f"{p + 1}:{v}" for p, v in zip(places, values, strict=True))
        )
    (tmp_path / "rows.libsvm").write_text("\n".join(lines) + "\n")
    (tmp_path / "recipe.yaml").write_text(
        "name: rows\nsources: {rows: rows.libsvm}\nlabel: label\nsplit: {train: 0.8, eval: 0.2}\n"
    )
    assert (
        run(
            ["convert", str(tmp_path / "recipe.yaml"), "--output", str(tmp_path / "out"), "--quiet"]
        )
        == 0
    )
    ((majority, base_loss, _), (accuracy, loss, auc)) = train(
        repository, tmp_path / "model", str(tmp_path / "out")
    )
    assert accuracy > majority + 0.2
    assert loss < base_loss - 0.2
    assert auc > 0.85
    # Without encodings, the examples of the dataset are the raw rows.
    (shard, *_) = sorted((tmp_path / "out" / "examples" / "Split-eval").iterdir())
    (records,) = tf.data.TFRecordDataset(str(shard), "GZIP").batch(2000)
    labels = tf.io.parse_example(records, {"label": tf.io.FixedLenFeature([1], tf.int64)})
    graph = tf.saved_model.load(str(tmp_path / "model" / "serving"))
    scores = graph.signatures["serving_default"](examples=records)["clicked"].numpy()
    assert ((scores > 0.5) == (labels["label"].numpy() > 0)).mean() > majority + 0.2
