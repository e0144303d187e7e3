"""No expression reads a file, the network or the environment.

The tests try every way into DuckDB, and then the connection itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sql import database
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import evaluate, parse_expression

SENTINEL = "sentinel-7c1f0e"
# FILE is a file with the sentinel, NAME an environment variable with it.
EXPRESSIONS = (
    "read_text('FILE')",
    "READ_TEXT('FILE')",
    "\"read_text\"('FILE')",
    "main.read_text('FILE')",
    "system.main.read_blob('FILE')",
    "'FILE'.read_text()",
    "read_csv('FILE')",
    "read_csv_auto('FILE')[1]",
    "read_json('FILE')",
    "read_parquet('FILE')",
    "parquet_scan('FILE')",
    "parquet_metadata('FILE')",
    "sniff_csv('FILE')",
    "glob('FILE')",
    "(SELECT content FROM read_text('FILE'))",
    "(FROM 'FILE')",
    "(SELECT a FROM 'FILE')",
    "(SELECT max(a) FROM 'https://localhost/a.csv')",
    "a IN (SELECT content FROM read_text('FILE'))",
    "a = ANY (SELECT content FROM read_text('FILE'))",
    "EXISTS (FROM read_csv('FILE'))",
    "ARRAY(SELECT content FROM read_text('FILE'))",
    "(WITH t AS (FROM read_text('FILE')) SELECT content FROM t)",
    "(VALUES (1))",
    "(TABLE 'FILE')",
    "(SELECT 1 FROM query_table('FILE'))",
    "(PIVOT 'FILE' ON a)",
    "(DESCRIBE 'FILE')",
    "(SUMMARIZE 'FILE')",
    "(SHOW TABLES)",
    "query('FROM ''FILE''')",
    "query_table('FILE')",
    "json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "json_serialize_sql('SELECT 1')",
    "json_serialize_plan('FROM read_text(''FILE'')')",
    "json_deserialize_sql('{}')",
    "getenv('NAME')",
    "list_transform([1], x -> getenv('NAME'))",
    "CASE WHEN getenv('NAME') = '' THEN 1 END",
    "{'a': getenv('NAME')}",
    "a || getenv('NAME')",
    "current_setting('home_directory')",
    "getvariable('a')",
    "duckdb_settings()",
    "(SELECT value FROM duckdb_settings() LIMIT 1)",
    "duckdb_secrets()",
    "which_secret('s3://a', 's3')",
    "pragma_version()",
    "current_database()",
    "current_query()",
    "txid_current()",
    "nextval('s')",
    "write_log('a')",
    "error('a')",
    "try(read_text('FILE'))",
    "if(true, read_text('FILE'), 1)",
    "CAST(read_text('FILE') AS INTEGER)",
    "COLUMNS(*)",
    "*",
    "$1",
    "?",
    "1) FROM read_text('FILE') WHERE (true",
    "1), (SELECT content FROM read_text('FILE')",
    "1) UNION SELECT content FROM read_text('FILE') WHERE (true",
    "1); COPY (SELECT 1) TO 'FILE'; SELECT (1",
    "1); ATTACH 'FILE'; SELECT (1",
    "1); INSTALL httpfs; SELECT (1",
    "1); LOAD httpfs; SELECT (1",
    "1); PRAGMA database_list; SELECT (1",
    "1); SET enable_external_access = true; SELECT (1",
    "1); CREATE MACRO f() AS read_text('FILE'); SELECT (1",
    "1); PREPARE p AS FROM 'FILE'; EXECUTE p; SELECT (1",
    "1); CALL read_text('FILE'); SELECT (1",
    "COPY t TO 'FILE'",
    "SELECT * FROM read_text('FILE')",
    "current_localtimestamp()",
    "current_localtime()",
)
STATEMENTS = (
    "SELECT * FROM read_text('FILE')", "SELECT * FROM read_csv('FILE')",
    "SELECT * FROM glob('FILE')", "FROM 'FILE'", "FROM 'https://localhost:1/a.csv'",
    "FROM read_csv('s3://a/b.csv')", "COPY (SELECT 1) TO 'FILE'", "EXPORT DATABASE 'FILE-folder'",
    "IMPORT DATABASE 'FILE-folder'", "ATTACH 'FILE-base'", "INSTALL httpfs", "LOAD httpfs",
    "LOAD 'FILE'", "SELECT getenv('NAME')", "SET enable_external_access = true",
    "RESET enable_external_access", "SET lock_configuration = false",
    "SET autoinstall_known_extensions = true", "SET autoload_known_extensions = true",
    "SET python_enable_replacements = true", "SET temp_directory = 'FILE-folder'",
    "SET allowed_directories = ['/']", "SET home_directory = '/'",
    "PRAGMA enable_external_access = true", "CREATE PERSISTENT SECRET s (TYPE s3)",
    "FROM some_python_table",
)  # fmt: skip


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file and an environment variable with the sentinel.

    They are in a watched folder.
    """
    path = tmp_path / "secret.csv"
    path.write_text(f"content\n{SENTINEL}\n")
    monkeypatch.setenv("SECRET_NAME", SENTINEL)
    monkeypatch.chdir(tmp_path)
    return str(path)


def put(text: str, path: str) -> str:
    return text.replace("FILE", path).replace("NAME", "SECRET_NAME")


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_attacks_are_refused_when_a_recipe_is_planned(filled: str, text: str) -> None:
    """Planning refuses them, and neither message nor folder has the sentinel."""
    sql = put(text, filled)
    before = sorted(os.listdir("."))
    Path("a.csv").write_text("a,b\nx,1\ny,2\n")
    for key in ("filter", "derive"):
        section = {"filter": "filter: |-\n  " + sql, "derive": "derive:\n  z: |-\n    " + sql}[key]
        recipe = parse_recipe(
            f"name: t\nsources: {{t: a.csv}}\n{section}\n", "recipe.yaml", os.getcwd()
        )
        with pytest.raises(RecipeProblems) as error:
            make_plan(recipe)
        assert [problem.path[0] for problem in error.value.problems] == [key]
        assert SENTINEL not in str(error.value.problems)
    assert sorted(os.listdir(".")) == sorted([*before, "a.csv"])


@pytest.mark.parametrize("text", STATEMENTS)
def test_the_connection_is_locked(filled: str, text: str) -> None:
    """The database has no files, network, extensions, or changeable settings."""
    some_python_table = pa.table({"a": [SENTINEL]})
    before = sorted(os.listdir("."))
    with pytest.raises(duckdb.Error) as error:
        database.connection().execute(put(text, filled)).fetchall()
    assert SENTINEL not in str(error.value)
    assert sorted(os.listdir(".")) == before
    assert Path(filled).read_text() == f"content\n{SENTINEL}\n"
    assert some_python_table.num_rows == 1


def test_every_function_that_makes_a_table_is_refused() -> None:
    """All table functions of DuckDB's catalogue are refused.

    Those that are scalar too are allowed.
    """
    rows = (
        duckdb.connect()
        .execute("SELECT function_name, function_type FROM duckdb_functions()")
        .fetchall()
    )
    scalars = {name for name, kind in rows if kind in ("scalar", "macro")}
    tables = {name for name, kind in rows if kind in ("table", "table_macro", "pragma")} - scalars
    assert {"read_text", "read_csv", "glob", "query", "duckdb_settings"} <= tables
    for name in sorted(tables):
        with pytest.raises(ExpressionError):
            parse_expression("x", f"\"{name}\"('a')", ["a"])


def test_what_only_looks_alike_still_works() -> None:
    """Texts with file names, scalar functions, and columns named like functions work."""
    batch = pa.RecordBatch.from_pydict({"a": ["x", "y"], "read_text": [1, 2]})
    for sql, expected in (
        (
            "a || 'read_text(''/etc/passwd'')'",
            ["xread_text('/etc/passwd')", "yread_text('/etc/passwd')"],
        ),
        ("repeat(a, 2)", ["xx", "yy"]),
        ("range(2)", [[0, 1], [0, 1]]),
        ("read_text + 1", [2, 3]),
        ("a GLOB 'x*'", [True, False]),
    ):
        assert (
            evaluate(batch, parse_expression("z", sql, batch.schema.names)).to_pylist() == expected
        )


def test_the_command_line_says_so(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A recipe whose filter reads a file ends with status 2.

    The error has the recipe's line.
    """
    Path("a.csv").write_text("a,b\nx,1\n")
    condition = put("a IN (SELECT content FROM read_text('FILE'))", filled)
    Path("recipe.yaml").write_text(f"name: t\nsources: {{t: a.csv}}\nfilter: {condition}\n")
    assert main_module.run(["convert", "recipe.yaml", "--output", "out"]) == 2
    printed = capsys.readouterr()
    assert "recipe.yaml:3: filter: " in printed.err
    assert "found a subquery" in printed.err
    assert SENTINEL not in printed.out + printed.err
    assert not Path("out").exists()
