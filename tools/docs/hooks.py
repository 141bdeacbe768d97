"""Hooks of MkDocs: adds the generated pages to the site."""

import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]


def on_files(files: Any, config: Any) -> Any:
    """Adds every generated page; called once per build."""
    if str(TOP) not in sys.path:  # MkDocs loads this file by path, and restores sys.path after it
        sys.path.insert(0, str(TOP))
    from mkdocs.structure.files import File

    from tools.docs.pages import PAGES

    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    return files
