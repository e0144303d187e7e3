"""The pages are true: links and files exist, and shown commands run.

Before each block of commands or Python is a comment that says how it is tested:

``<!-- run: FOLDER -->``: it runs here, in one of ``FOLDERS``. The lines after ``$ command``, or the
block of text after a Python block, are its output; ``…`` stands for anything. ``<!-- run by
tests/…/test_….py -->``: that module runs it. ``<!-- not run: REASON -->``: nothing runs it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import openpyxl
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.recipe.reader import parse_recipe
from beam_pipelines.sources import FORMATS
from benchmarks import draw_as_of, draw_speed

pytestmark = pytest.mark.end_to_end

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "examples/*/README.md", "benchmarks/README.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"run: (?P<folder>\w+)|run by (?P<module>tests/\S+\.py)|not run: \S.*")
LANGUAGES = {"console", "json", "protobuf", "python", "sh", "text", "yaml"}
# Times, sizes and the files that TensorFlow's log names differ from machine to machine.
VARIES = re.compile(r"\d[\d.,]*(?= (?:s|bytes|kB|MB|GB)\b)")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    It has its mark, language and text, and the block of text after it.
    """

    page: str
    mark: str
    language: str
    text: str
    output: str

    @property
    def folder(self) -> str:
        """The folder that it runs in, or an empty text."""
        found = MARK.fullmatch(self.mark)
        return (found["folder"] or "") if found else ""


def blocks_of(page: str) -> Iterator[Block]:
    """Yields the blocks of a page, in order."""
    found = BLOCK.findall((ROOT / page).read_text())
    for (mark, language, text), following in itertools.pairwise([*found, ("", "", "")]):
        output = following[2] if following[1] == "text" and not following[0] else ""
        yield Block(page, mark, language, text, output)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def make_flights(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """The top of the repository after ``make demo``."""
    for name in ("examples", "schemas"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / ".demo").mkdir()
    (folder / ".demo" / "flights-data").symlink_to(flights_data)
    bp.convert(folder / "examples" / "flights" / "recipe.yaml", folder / "out" / "flights")


def make_clicks(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """Two small tables."""
    lines = [f"{n % 50},ad{n % 7},{n / 4}" for n in range(3000)]
    (folder / "clicks.csv").write_text("\n".join(["user,ad,cost", *lines]) + "\n")
    lines = [f"{user},{'de' if user % 2 else 'fr'}" for user in range(50)]
    (folder / "users.csv").write_text("\n".join(["user,country", *lines]) + "\n")


def make_wrong(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """Writes a recipe of docs/recipe.md with a mistake.

    Another one reads outside of its folder.
    """
    recipe = next(block.text for block in blocks_of("docs/recipe.md") if block.language == "yaml")
    mistake = recipe.replace("prefix: plane_", "how: outer, prefix: plane_")
    (folder / "recipe.yaml").write_text(mistake)
    (folder / "data").symlink_to(flights_data)
    for name, text in (
        ("theirs/recipe.yaml", "name: clicks\nsources:\n  clicks: ../private/clicks.csv\n"),
        ("private/clicks.csv", "user,ad\n1,a\n"),
    ):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)


def make_anomalies(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """A table of four rows that does not meet its schema."""
    (folder / "d.csv").write_text("carrier,dist,note\nUA,100,a\nAA,200,b\nZZ,300,c\nQQ,-5,\n")
    (folder / "recipe.yaml").write_text("name: d\nsources: {d: d.csv}\nschema: s.pbtxt\n")
    (folder / "s.pbtxt").write_text("""
feature { name: "carrier" type: BYTES domain: "carrier" presence { min_fraction: 1 } }
feature { name: "dist" type: INT int_domain { min: 0 } presence { min_fraction: 1 } }
feature { name: "note" type: BYTES presence { min_fraction: 1 } }
string_domain { name: "carrier" value: "AA" value: "UA" }
""")


def make_compared(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """Two datasets of the same rows; two rows differ."""
    for name, rows in (
        ("trained", ("1,1,Oslo", "2,1.5,Rome", "3,2,Lima", "4,5,Oslo")),
        ("served", ("1,1,Oslo", "2,1.25,Rome", "3,,Lima")),
    ):
        (folder / f"{name}.csv").write_text("\n".join(("id,price,city", *rows)) + "\n")
        source = {"path": str(folder / f"{name}.csv"), "types": {"price": "float32"}}
        recipe = {"name": name, "sources": {"rows": source}, "output": {"format": "parquet"}}
        bp.convert(recipe, folder / name)


def make_days(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """Two days of a table, with another city on the second."""
    for name, rows, cities, first in (
        ("monday", 3000, ("Oslo", "Rome", "Lima"), 0),
        ("tuesday", 2400, ("Oslo", "Rome", "Nice"), 3000),
    ):
        lines = [
            f"{first + row},{cities[row % 3]},{row * 7 % 97},2026-11-{16 + first // 3000}"
            for row in range(rows)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["id,city,amount,day", *lines]) + "\n")


def make_daily(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """Four days of clicks, and the recipe of docs/daily.md."""
    (folder / "clicks").mkdir()
    for day in range(20, 24):
        lines = [
            f"{n * 7 % 400},ad{day if n % 199 == 0 else n // 3 % 7},{n % 9 // 8}"
            for n in range(2000)
        ]
        path = folder / "clicks" / f"2026-11-{day}.csv"
        path.write_text("\n".join(["user,ad,bought", *lines]) + "\n")
    recipe = next(block.text for block in blocks_of("docs/daily.md") if block.language == "yaml")
    (folder / "clicks.yaml").write_text(recipe)


def make_cookbook(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """The messy files of docs/cookbook.md, and its recipes by their names."""
    tables = {
        "orders.csv": [
            "order,customer_id,placed_at,total,returned",
            *(
                f"{n},{n % 50},2025-{n % 12 + 1:02}-{n % 28 + 1:02} {n % 24:02}:15:00,"
                f"{n * 7 % 90 / 4 + 1},{int(n % 25 == 0)}"
                for n in range(1000)
            ),
        ],
        "customers.csv": ["id,country", *(f"{n:06},{'DE' if n % 3 else 'FR'}" for n in range(50))],
        "weather.csv": [
            "day,rain",
            *(f"2025-{n // 28 + 1:02}-{n % 28 + 1:02},{n % 9 / 2}" for n in range(336)),
        ],
        "visits.csv": [
            "id,day",
            *(
                f"{n},{n % 28 + 1:02}/{n % 12 + 1:02}/2025"
                if n % 3
                else f"{n},2025-{n % 12 + 1:02}-{n % 28 + 1:02}"
                for n in range(300)
            ),
        ],
        "prices.jsonl": [f'{{"id": {n}, "total": "${n * 11 + 1000:,}.50"}}' for n in range(300)],
        "sales-2024.csv": ["shop,amount", *(f"s{n % 7},{n * 3 % 101}" for n in range(400))],
        "sales-2025.csv": ["shop,amount", *(f"s{n % 7},{n * 5 % 101}" for n in range(400))],
        "clicks.csv": [
            "user_id,clicks",
            *(f"{17031000000 + n}.0,{n % 9}" if n % 10 else f",{n % 9}" for n in range(300)),
        ],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    book = openpyxl.Workbook()
    book.active.title = "Refunds"
    for row in (
        ["Refunds of 2025"],
        [],
        ["order", "amount"],
        *([n, n * 2.5 + 1] for n in range(9)),
    ):
        book.active.append(row)
    book.save(folder / "refunds.xlsx")
    for block in blocks_of("docs/cookbook.md"):
        if block.language == "yaml":
            name = re.findall(r"name: (\w+)", block.text)[0]
            (folder / f"{name}.yaml").write_text(block.text)


def make_criteo(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """A table like Criteo's click logs."""
    script = ROOT / "benchmarks" / "criteo_like.py"
    command = [sys.executable, script, "--rows", "100000", "--output", folder / "clicks.csv"]
    subprocess.run(command, check=True, capture_output=True)


def make_served(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """Clicks, and the recipe that the page shows."""
    make_clicks(folder, flights_data)
    (folder / "recipe.yaml").write_text("""\
name: clicks
sources: {clicks: clicks.csv}
derive: {bought: cost > 600}
encode:
  user: {hash_bucket: 1000}
  ad: {vocabulary: {num_oov: 1}}
  cost: [log1p, z_score]
label: bought
""")


def make_tutorial(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """The table and the recipe of docs/tutorial.md."""
    blocks = list(blocks_of("docs/tutorial.md"))
    program = next(block.text for block in blocks if block.language == "python")
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    recipe = next(block.text for block in blocks if block.language == "yaml")
    (folder / "rides.yaml").write_text(recipe)


def make_trips(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """The table, the module and the recipes of docs/from_tfx.md."""
    blocks = list(blocks_of("docs/from_tfx.md"))
    program = next(block.text for block in blocks if block.language == "python")
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    (module,) = (block.text for block in blocks if block.text.startswith("# module.py"))
    (folder / "module.py").write_text(module)
    recipes = [block.text for block in blocks if block.language == "yaml"]
    for name, recipe in zip(("encoded", "kept"), recipes, strict=True):
        (folder / f"{name}.yaml").write_text(recipe)


def make_rides(folder: pathlib.Path, flights_data: pathlib.Path) -> None:
    """The table of docs/trust.md, with mistakes, and its recipes."""
    lines = [
        f"{n},d{n % 40},{0.0 if n in (700, 701, 1500) else n * 37 % 997 / 8 + 1.5},{n * 7 % 45 + 5}"
        for n in range(2000)
    ]
    lines[1800] = lines[10]
    (folder / "rides.csv").write_text("\n".join(["ride,driver,km,minutes", *lines]) + "\n")
    recipes = [block.text for block in blocks_of("docs/trust.md") if block.language == "yaml"]
    names = ("expect", "duplicates", "leaks", "label", "personal")
    for name, recipe in zip(names, recipes, strict=True):
        (folder / f"{name}.yaml").write_text(recipe)
    recipes = [
        block.text for block in blocks_of("docs/joins.md") if "sources: {rides" in block.text
    ]
    for name, recipe in zip(("stratified", "sampled"), recipes, strict=True):
        (folder / f"{name}.yaml").write_text(recipe)
    drivers = [f"d{n},{n % 5 + 1}" for n in range(40)]
    (folder / "drivers.csv").write_text("\n".join(["id,rating", *drivers]) + "\n")
    (recipe,) = (b.text for b in blocks_of("docs/joins.md") if "drivers: {path" in b.text)
    (folder / "filtered.yaml").write_text(recipe)
    (recipe,) = (b.text for b in blocks_of("docs/joins.md") if "weather: {path" in b.text)
    (folder / "orders.yaml").write_text(recipe)
    orders = [
        f'{{"customer_id": {n % 50}, "placed_at": "2024-05-0{n % 9 + 1} 10:00:00", '
        f'"shop": "{("North ", "north", "SOUTH")[n % 3]}"}}'
        for n in range(500)
    ]
    (folder / "orders.jsonl").write_text("\n".join(orders) + "\n")
    tables = {
        "customers": ["id,since", *(f"{n:06},{2000 + n % 20}" for n in range(48))],
        "weather": ["date,degrees", *(f"2024-05-{day:02},{day}" for day in range(1, 32))],
        "shops": ["name,size", "NORTH,10", "SOUTH,20"],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    web = [f"{n},u{n % 97},{int(n % 9 == 0)}" for n in range(3000)]
    (folder / "web.csv").write_text("\n".join(["visit,user,label", *web]) + "\n")
    app = [f'{{"visit": {n}, "label": {n % 2}, "device": "d{n % 3}"}}' for n in range(1000)]
    (folder / "app.jsonl").write_text("\n".join(app) + "\n")
    (recipe,) = (b.text for b in blocks_of("docs/joins.md") if "union: [web" in b.text)
    (folder / "union.yaml").write_text(recipe)


def make_lake(folder: pathlib.Path, _: pathlib.Path) -> None:
    """An empty folder: the page writes its table."""


FOLDERS: dict[str, Callable[[pathlib.Path, pathlib.Path], None]] = {
    "flights": make_flights,
    "clicks": make_clicks,
    "wrong": make_wrong,
    "anomalies": make_anomalies,
    "compared": make_compared,
    "days": make_days,
    "daily": make_daily,
    "cookbook": make_cookbook,
    "criteo": make_criteo,
    "served": make_served,
    "tutorial": make_tutorial,
    "readme": make_tutorial,
    "trips": make_trips,
    "rides": make_rides,
    "lake": make_lake,
}


PROGRAM = """
import contextlib, faulthandler, io, json, sys, traceback
faulthandler.dump_traceback_later(1200, exit=True)
names, printed = {}, []
for page, text in json.load(sys.stdin):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(text, page, "exec"), names.setdefault(page, {"__name__": "page"}))
        except Exception:
            output.write(traceback.format_exc())
    printed.append(output.getvalue())
print(json.dumps(printed))
"""


def run(command: str, folder: str) -> str:
    """Returns a command's output.

    A success prints progress on standard error, which is left out.
    """
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + (done.stderr if done.returncode else "")


def run_python(blocks: list[Block], folder: str) -> list[str]:
    """Returns the output of each block.

    All run in one process, because TensorFlow takes seconds to import. Blocks of one page share
    their names.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([(block.page, block.text) for block in blocks]),
        cwd=folder,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def wrong_commands(blocks: list[Block], folder: str) -> Iterator[str]:
    """Runs commands, and yields those that print another text."""
    for block in blocks:
        if block.language == "console":
            for part in re.split(r"(?m)^\$ ", block.text)[1:]:
                command, _, shown = part.partition("\n")
                output = run(command, folder)
                if not agrees(shown, output):
                    yield f"{block.page}: $ {command}\n{output}"


def wrong_programs(blocks: list[Block], folder: str) -> Iterator[str]:
    """Runs Python blocks, and yields those that print another text."""
    programs = [block for block in blocks if block.language == "python"]
    outputs = run_python(programs, folder) if programs else []
    for block, output in zip(programs, outputs, strict=True):
        if not agrees(block.output, output):
            yield f"{block.page}:\n{block.text}\n{output}"


def agrees(shown: str, output: str) -> bool:
    """Whether an output matches the page.

    ``…`` is any text, and alone on its line any lines.
    """
    pattern = re.escape(simplified(shown))
    pattern = re.sub(r"(?m)^…\\\n", r"(?:.*\\n)*", pattern).replace("…", ".*")
    return bool(re.fullmatch(pattern, simplified(output)))


def simplified(text: str) -> str:
    """A text without what varies, and without the widths of columns."""
    lines = (re.sub(r"[ ─]+", " ", line).strip() for line in text.strip().splitlines())
    return VARIES.sub("#", "\n".join(lines)) + "\n"


@pytest.mark.parametrize("name", FOLDERS)
def test_pages_show_what_is_printed(name, tmp_path, flights_data):
    """Commands and Python blocks print the text on the page.

    A ``$ command`` has its output in the lines that follow, a Python block in the block of text
    after it. Python blocks of a folder run after its commands.
    """
    FOLDERS[name](tmp_path, flights_data)
    blocks = [block for block in BLOCKS if block.folder == name]
    wrong = [*wrong_commands(blocks, str(tmp_path)), *wrong_programs(blocks, str(tmp_path))]
    assert "\n\n".join(wrong) == ""


def test_every_block_says_how_it_is_tested():
    """Each block names its language, and how it is tested.

    Each block of commands or Python has a mark, and the file in the mark exists.
    """
    wrong = []
    for block in BLOCKS:
        found = MARK.fullmatch(block.mark)
        if block.language not in LANGUAGES or (
            block.language in {"console", "python", "sh"}
            and (
                not found
                or (found["folder"] and (found["folder"] not in FOLDERS or block.language == "sh"))
                or (found["module"] and not (ROOT / found["module"]).is_file())
            )
        ):
            wrong.append(f"{block.page}: ```{block.language} {block.mark!r}: {block.text[:60]}")
    assert wrong == []


@pytest.mark.parametrize("page", sorted({b.page for b in BLOCKS if b.language == "yaml"}))
def test_recipes_on_the_page_are_read(page):
    """The YAML of a page is a whole or partial recipe."""
    wrong = []
    for block in blocks_of(page):
        if block.language == "yaml" and not block.mark:
            given = set(re.findall(r"(?m)^(\w+):", block.text))
            used = re.findall(r"(?m)(?:^from|source): (\w+)", block.text) or ["page"]
            sources = ", ".join(f"{source}: a.csv" for source in sorted(set(used)))
            text = "" if "name" in given else "name: page\n"
            text += "" if "sources" in given else f"sources: {{{sources}}}\n"
            try:
                parse_recipe(
                    text + block.text, f"{page}.yaml", formats=FORMATS, encodings=ENCODING_FOR_KIND
                )
            except RecipeError as error:
                wrong.append(f"{error}\n{block.text}")
    assert wrong == []


def prose_of(page: str) -> str:
    """The text of a page without its blocks."""
    return BLOCK.sub("", (ROOT / page).read_text())


def anchors_of(page: str) -> set[str]:
    """Returns the anchors of a page.

    GitHub makes them of its headings, and the page declares others.
    """
    found: list[str] = []
    for heading in re.findall(r"(?m)^#+ (.*)$", prose_of(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return {*found, *re.findall(r'<a id="([^"]+)">', prose_of(page))}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Each local link of a page leads to a file.

    It leads to a heading if it names one.
    """
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose_of(page))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        if not file.exists() or (
            anchor and anchor not in anchors_of(os.path.relpath(file.resolve(), ROOT))
        ):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    """Each module and source file in a page's backticks exists."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    named = set(re.findall(r"`((?:[\w.]+/)*[\w]+\.(?:py|cc|h))`", prose_of(page)))
    missing = {
        name
        for name in named - USERS_FILES
        if not any(f"/{path}".endswith(f"/{name.removeprefix('../')}") for path in listed)
    }
    assert missing == set()


# Files of the reader's own that pages show.
USERS_FILES = {"features.py", "module.py", "pipeline.py"}


def test_pages_stay_short():
    """The README has at most 900 words, and docs/ at most 70,000."""
    assert len((ROOT / "README.md").read_text().split()) <= 900
    assert sum(len(page.read_text().split()) for page in ROOT.glob("docs/*.md")) <= 70_000


def test_readme_shows_the_recipe_of_the_tutorial():
    """The README and the tutorial begin with one recipe."""
    readme, tutorial = (
        next(block.text for block in blocks_of(page) if block.language == "yaml")
        for page in ("README.md", "docs/tutorial.md")
    )
    assert readme == tutorial


def test_charts_show_the_figures(tmp_path, monkeypatch):
    """The charts are what the script draws of its figures.

    Each figure is in the page that its group names.
    """
    for group in draw_speed.read_groups():
        page = (ROOT / group["source"].partition("#")[0]).read_text()
        assert [bar for bar in group["bars"] if f"{bar['value']:,}" not in page] == []
    monkeypatch.setattr(draw_speed, "IMAGES", tmp_path)
    monkeypatch.setattr(draw_speed, "PAGES", ())
    draw_speed.main()
    monkeypatch.setattr(draw_as_of, "PICTURE", tmp_path / "as-of.svg")
    draw_as_of.main()
    for drawn in tmp_path.iterdir():
        assert (ROOT / "docs" / "images" / drawn.name).read_text() == drawn.read_text()


def test_pages_have_the_figures_of_one_table():
    """Pages that name a figure of a conversion take it from docs/performance.md.

    Another figure there is another one in the page; a name of no cell, or of two, is an error.
    """
    source = draw_speed.SOURCE.read_text()
    pages = {name: (ROOT / name).read_text() for name in draw_speed.PAGES}
    assert {name: draw_speed.filled(text, source) for name, text in pages.items()} == pages
    assert sum(len(draw_speed.MARKED.findall(text)) for text in pages.values()) >= 12
    table = "| | a s | b |\n|---|---|---|\n| one two | 1.5 | 2; 1,000 (3) |\n| onerous | | 4 |\n"
    marked = "<!--of:one_t|b|1-->7<!----> of <!--of:one|a--><!---->"
    assert draw_speed.filled(marked, table) == marked.replace("7", "1,000").replace(
        "a-->", "a-->1.5"
    )
    for name in ("one|b", "two|b", "one_t|c", "one_t|a|1"):
        with pytest.raises(KeyError, match="expected one cell"):
            draw_speed.figure(name, table)
