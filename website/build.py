"""Builds the documentation as a site, and checks every link in it.

  python website/build.py --output out/docs

It needs website/requirements.txt; `make docs` installs that. Pages are copied to a folder of their
own, each at its place in the repository. A file that a page links to becomes a page, too. For
programs that read, the site also has each page as Markdown, ``llms.txt``, and a skill (``skill/``).
"""

from __future__ import annotations

import argparse
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("*.md", "docs/*.md", "examples/*/README.md", "benchmarks/README.md")
# The comment before a block that says how it is tested.
MARK = re.compile(r"^<!-- (?:run|not run)\b[^\n]* -->\n(?=```)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
PICTURE = re.compile(r"(?:src|srcset)=\"([^\":]+\.svg)\"")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
SKILL_PAGES = re.compile(r"`pages/([\w]+\.md)`")
# The search is about what holds today.
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
LANGUAGES = {".py": "python", ".yaml": "yaml", ".pbtxt": "protobuf"}
IMAGES = {".png", ".svg"}


def main() -> None:
    """Builds the site, or ends with the reasons why it cannot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "out" / "docs")
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_pages(ROOT, folder / "pages")
        shutil.copy(ROOT / "website" / "mkdocs.yml", folder)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if built.returncode:
            found = re.sub(r"\x1b\[[\d;]*m", "", built.stdout + built.stderr)
            raise SystemExit(found.partition("Traceback")[0])
        if broken := list(broken_links(folder / "site")):
            raise SystemExit("\n".join(["error: found links that lead nowhere:", *broken]))
        write_for_programs(ROOT, folder / "site")
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(folder / "site", output)
    folder = pathlib.Path(os.path.relpath(output))
    print(f"{folder / 'index.html'}: {len(list(folder.rglob('*.html')))} pages")
    print(f"With search: python -m http.server --bind 127.0.0.1 --directory {folder}")


def write_pages(root: pathlib.Path, target: pathlib.Path) -> None:
    """Writes the pages of a repository, and files that they link to.

    Args:
      root: folder of the repository.
      target: folder that does not exist yet.
    """
    linked = {root / "website" / "extra.css"}
    for page in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        text, files = site_page(page)
        linked |= files
        head = NOT_SEARCHED if page.name == "CHANGELOG.md" else ""
        write(target / page.relative_to(root), head + text)
    for file in linked:
        place = target / file.relative_to(root)
        if file.suffix in {*IMAGES, ".css"}:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
        else:
            write(place.with_name(f"{file.name}.md"), file_page(file))


def write_for_programs(root: pathlib.Path, site: pathlib.Path) -> None:
    """Writes each page as Markdown, their list as ``llms.txt``, and the skill.

    Args:
      root: folder of the repository.
      site: folder of the built site.
    """
    lines = [f"# beam-pipelines\n\n> {summary(root / 'README.md')}\n\n## Pages\n"]
    for page in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        name = page.relative_to(root).as_posix()
        text = MARK.sub("", page.read_text())
        write(site / name, text)
        title = re.search(r"^# (.*)$", text, re.MULTILINE)
        lines.append(f"- [{title[1] if title else name}]({name}): {summary(page)}")
    write(site / "llms.txt", "\n".join(lines) + "\n")
    skill = (root / "website" / "SKILL.md").read_text()
    write(site / "skill" / "SKILL.md", skill)
    for name in SKILL_PAGES.findall(skill):
        write(site / "skill" / "pages" / name, MARK.sub("", (root / "docs" / name).read_text()))


def summary(page: pathlib.Path) -> str:
    """Returns the first sentence of a page, without links."""
    text = re.sub(r"(?ms)^```.*?^```$", "", MARK.sub("", page.read_text()))
    paragraphs = [part for part in text.split("\n\n")[1:] if re.match(r"[A-Z`\[]", part)]
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraphs[0]) if paragraphs else ""
    return re.split(r"(?<=\.)\s", " ".join(first.split()))[0]


def write(path: pathlib.Path, text: str) -> None:
    """Writes a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def site_page(page: pathlib.Path) -> tuple[str, set[pathlib.Path]]:
    """Returns a page of the site, and files that it links to.

    Marks of blocks are left out. A link to a file leads to the page of that file.
    """
    files = set()

    def followed(link: re.Match[str]) -> str:
        file = (page.parent / link[1]).resolve()
        if re.match(r"[a-z]+:", link[1]) or file.suffix == ".md" or not file.is_file():
            return link[0]
        files.add(file)
        return link[0] if file.suffix in IMAGES else f"]({link[1]}.md{link[2]})"

    text, parts, end = MARK.sub("", page.read_text()), [], 0
    files |= {(page.parent / name).resolve() for name in PICTURE.findall(CODE.sub("", text))}
    for code in CODE.finditer(text):
        parts += [LINK.sub(followed, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(followed, text[end:])]), files


def file_page(file: pathlib.Path) -> str:
    """Returns the page of a file or a notebook."""
    text = file.read_text()
    head = f"{NOT_SEARCHED}# {file.name}\n\n"
    if file.suffix != ".ipynb":
        return head + fenced(text, LANGUAGES.get(file.suffix, "text"))
    cells = json.loads(text)["cells"]
    return "\n".join(
        fenced(source, "python") if cell["cell_type"] == "code" else f"{source}\n"
        for cell in cells
        for source in ["".join(cell["source"])]
    )


def fenced(text: str, language: str) -> str:
    """Returns a block of code, also of a text that has blocks."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall(r"`+", text)), 0)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


class Links(html.parser.HTMLParser):
    """The anchors of a page, and the links in it.

    Attributes:
      anchors: ids of its elements.
      links: the texts of `href`, `src` and `srcset`.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """Takes the attributes of an element."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in {"href", "src", "srcset"} and value:
                self.links.add(value)


def broken_links(site: pathlib.Path) -> Iterator[str]:
    """Yields the local links to no file, or to no anchor.

    The page 404.html is left out: its links start at the root of a host.
    """
    site = site.resolve()
    pages = {path: Links(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for page, found in pages.items():
        for link in sorted(found.links):
            if re.match(r"[a-z]+:", link) or page.name == "404.html":
                continue
            name, _, anchor = map(urllib.parse.unquote, link.partition("#"))
            target = pathlib.Path(os.path.normpath(page.parent / name)) if name else page
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or (
                anchor and target in pages and anchor not in pages[target].anchors
            ):
                yield f"{page.relative_to(site)}: {link}"


if __name__ == "__main__":
    main()
