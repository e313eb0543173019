"""`python run_notebook.py IN OUT`: executes a notebook, and holds the one in the repository to its promises.

Every cell must run without an error, and the notebook in the repository must hold what its cells printed.
"""

import pathlib
import sys

import nbformat
from nbclient import NotebookClient

source, target = map(pathlib.Path, sys.argv[1:])
notebook = nbformat.read(source, as_version=4)
silent = [
    number
    for number, cell in enumerate(notebook.cells)
    if cell.cell_type == "code" and cell.execution_count is None
]
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
for cell in notebook.cells:
    # Times of single cells would differ on every run.
    cell.metadata.pop("execution", None)
nbformat.write(notebook, target)
print(f"{source}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
if silent and source != target:
    sys.exit(f"cells {silent} of {source} were never executed there; scripts/python-package --notebook does it")
