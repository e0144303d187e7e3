"""Writes docs/troubleshooting.md from the messages in the source.

  python -m tests.support.troubleshooting_page

``ADVICE`` names messages by words in them, each with what it means and what to do. The text of a
message is taken from the source, so that the page cannot show one that is gone.
"""

from __future__ import annotations

import ast
import functools
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
FOLDERS = ("beam_pipelines", "plugins/beam_pipelines_plugins")
LONGEST = 90
HEAD = """# Troubleshooting by message

Each error says where, what was found, what was expected, and what to do. This page says more about \
those that users meet most. Search it for the words of your message; `…` stands for a name or a \
value. It is generated from the messages in the source."""
# Title of a section: words of a message, what it means, what to do.
ADVICE = {
    "Files": (
        (
            "expected every file that matches once",
            "A link leads to a folder that the pattern matches, too. Its rows would count twice.",
            "[Links](sources.md#files)",
        ),
        (
            "which is not read, expected gzip",
            "The compression is none of those that are read.",
            "Decompress it, or take gzip, bzip2 or zstd",
        ),
        (
            "found an empty file, expected data",
            "What writes the file was not done, or failed.",
            "Check it; a pattern may leave the file out",
        ),
        (
            "found no access (…), expected",
            "Credentials are missing, or the bucket refuses them.",
            "`beam-pipelines doctor URL` ([object stores](access.md#paths-in-object-stores))",
        ),
    ),
    "CSV and JSON": (
        (
            "and the like, which are different",
            "Two readings are about as likely: days first or months first, thousands or decimals.",
            "Copy one of the two lines ([formats](text_files.md#formats-of-cells))",
        ),
        (
            "expected it written as",
            "A value is not written as those of the sample: two formats in one column.",
            "[Mixed dates](cookbook.md#mixed-dates-two-date-formats-in-one-column)",
        ),
        (
            "found a quote that is never closed",
            "A quote was lost, or quotes mean nothing in this file.",
            'Mend it, or `quote: ""`',
        ),
        (
            "found text that is not UTF-8, such as",
            "The text is in another encoding, and it does not look Western.",
            "`encoding` of the source",
        ),
    ),
    "Joins": (
        (
            "expected at least …% of them ('require_match')",
            "Keys differ: zeros before them, blanks, letter case, a time and a day.",
            "[Padded ids and days](cookbook.md#padded-ids-000042-here-42-there)",
        ),
        (
            "because the source declares 'key: […]'",
            "Several rows have one key, so a join would multiply rows.",
            "Remove the repeated rows, or leave `key` out ([keys](joins.md#keys))",
        ),
    ),
    "Recipes": (
        (
            "found no 'from', expected the source",
            "There are several sources; one gives the rows.",
            "`from: NAME` ([top level](recipe.md#top-level))",
        ),
        (
            "found both 'drop' and 'keep'",
            "`keep` leaves out all other columns already.",
            "Take one of them",
        ),
        (
            "without 'column', expected the column",
            "A split by a column needs its name.",
            "[Splits](joins.md#splits)",
        ),
    ),
    "Encodings": (
        (
            "end the value with 'derive', leave such rows out",
            "A value has no equal in the feature: an id that float32 rounds, a number out of range.",
            "[Ids as floats](cookbook.md#ids-as-floats-from-pandas), [values](values.md#floats)",
        ),
        (
            "found ids without their number",
            "The length of a `one_hot` vector is not known before the data are read.",
            "Give it: `{one_hot: 12}`",
        ),
        (
            "found no values to take",
            "The split to fit on has no value of the column: often a join that matched nothing.",
            "Look at the summary's joins first; then give a value, `{fill: 0}`",
        ),
    ),
    "Output and loading": (
        (
            "expected an empty or new folder",
            "The folder has files that no run has made, or a dataset.",
            "Another `--output`, or `--overwrite` for a dataset",
        ),
        (
            "found no index of the shards' parts",
            "The copy of the dataset is not complete, or it is of an early version.",
            "Copy it again, or convert again with `--overwrite`",
        ),
        (
            "found a state of other data",
            "The reader's state belongs to other rows: data were converted again, or a day was added.",
            "Open the folders that it had ([order and state](loading.md#order-and-state))",
        ),
        (
            "found other encodings than in",
            "Datasets that are read as one were fitted apart, so ids mean different things.",
            "Make later ones with `transform --grow` ([growth](daily.md#growth))",
        ),
        (
            "found no schema in it",
            "The copy of the dataset is not complete.",
            "Copy it again; `beam-pipelines verify FOLDER`",
        ),
    ),
    "Engines": (
        (
            "workers cannot see a path of this machine",
            "Workers run elsewhere.",
            "Copy the data to `gs://` or `s3://` ([runners](runners.md#what-every-runner-needs))",
        ),
        (
            "that another worker's C++ kernels packed",
            "Some workers have the kernels and others do not.",
            "Install all alike ([kernels](native.md#check-that-they-are-built))",
        ),
    ),
}


def page() -> str:
    """Returns the page.

    Raises:
      ValueError: if no message has the words of an entry.
    """
    parts = [HEAD]
    for title, entries in ADVICE.items():
        parts += [f"\n## {title}\n", "| Message | What it means | What to do |\n|---|---|---|"]
        parts += [f"| `{shown(words)}` | {means} | {remedy} |" for words, means, remedy in entries]
    return "\n".join(parts) + "\n"


def shown(words: str) -> str:
    """Returns the part of a message that users search for.

    It is cut where it gets long.
    """
    found = next((text for text in messages() if words in text), None)
    if found is None:
        raise ValueError(f"found no message with {words!r}, expected one. Change ADVICE.")
    start = min(found.find(word) for word in ("found ", "expected ", words) if word in found)
    text = " ".join(found[start:].split())
    text = text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " …"
    return text.replace("|", "\\|").replace("`", "'")


@functools.cache
def messages() -> list[str]:
    """Returns texts of the source, with `…` for their values."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (getattr(part, "value", "…") for part in node.values)
                    found.append("".join(one if isinstance(one, str) else "…" for one in parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
