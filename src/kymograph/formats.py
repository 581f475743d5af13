"""What the author of an export format imports; `docs/howto/add-an-export-format.md` adds one.

>>> from kymograph.formats import FORMATS, make_directory, write_atomically
>>> def write(store: ky.Store, path: Path) -> None:  # a format: all of the file is written, or nothing
...     make_directory(path.parent)
...     write_atomically(path, " ".join(run.id for run in store.finished).encode())
>>> write(ky.Store.open("runs"), Path("lists/runs.txt"))
>>> len(Path("lists/runs.txt").read_text().split()), "csv" in FORMATS.names()
(20, True)
"""

from kymograph._io.writing import make_directory as make_directory, write_atomically as write_atomically
from kymograph._runs.formats import FORMATS as FORMATS
