"""What the author of an export format imports; see `docs/howto/add-an-export-format.md`."""

from kymograph._io.writing import make_directory as make_directory, write_atomically as write_atomically
from kymograph._runs.formats import FORMATS as FORMATS
