"""Hooks of MkDocs: adds the generated pages to the site."""

import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
# MkDocs loads this file by path.
sys.path.insert(0, str(TOP))


def on_files(files: Any, config: Any) -> Any:
    """Adds every generated page; called once per build."""
    from mkdocs.structure.files import File

    from tools.docs.pages import PAGES

    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    return files
