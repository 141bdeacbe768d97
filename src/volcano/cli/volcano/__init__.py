"""The commands of `volcano`: one module or package each."""
