"""Lists of the pages in a directory, by their titles."""

from pathlib import Path

from tools.docs.markdown import page

DOCS = Path(__file__).parents[2] / "docs"


def decisions_page() -> str:
    return page("Decisions", "Why things are as they are; newest last.", links("decisions"))


def parity_page() -> str:
    return page(
        "Differences from Volcano",
        "Behaviour is Volcano's, except for what these pages list, each with its reason.",
        links("parity"),
    )


def links(directory: str) -> str:
    paths = sorted(path for path in (DOCS / directory).glob("*.md") if path.name != "index.md")
    return "\n".join(f"- [{title(path)}]({path.name})" for path in paths)


def title(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("#").strip()
