"""`--operator NAME`: the manifests of operators that `volcano frameworks install` has installed."""

from collections.abc import Sequence

from volcano.cli.errors import CommandError, UsageError
from volcano.cli.volcano.settings import read_documents
from volcano.embedded.files import Document
from volcano.frameworks.cache import Cache
from volcano.frameworks.install import recipe_names, recipe_of
from volcano.frameworks.operators import FILE


def operator_documents(names: Sequence[str]) -> list[Document]:
    """The manifests of operators. Raises CommandError if one is unknown or not installed."""
    cache = Cache()
    files = []
    for name in names:
        if name not in recipe_names():
            raise UsageError(f"--operator: no framework {name!r}; known are {', '.join(recipe_names())}")
        recipe = recipe_of(name)
        if not cache.is_installed(recipe):
            raise CommandError(
                f"--operator: {name} is not installed; run `volcano frameworks install {name}` first"
            )
        file = cache.path_of(recipe) / FILE
        if not file.exists():
            raise UsageError(f"--operator: the framework {name} has no operator; leave the flag out")
        files.append(str(file))
    return read_documents(files)
