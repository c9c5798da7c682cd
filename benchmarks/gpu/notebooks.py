"""Every lesson and solution, executed: what fails, and which answers differ."""

import concurrent.futures
import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import nbformat
import torch
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from benchmarks.gpu.keeping import Findings
from conftest import answer_of

ROOT = Path(__file__).parents[2]
_AT_ONCE = max(2, (os.cpu_count() or 2) // 2)
_CELL = 60  # seconds that a cell may take


def main(out: str) -> None:
    """Run them, several at once, those that show most of a GPU first."""
    findings = Findings(out, "notebooks")
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    paths += sorted((ROOT / "solutions").glob("*.ipynb"))
    if not torch.cuda.device_count():
        print("no GPU here: the first lesson alone, to see that it runs")
        paths = paths[:1]
    archive = Path(out, "notebooks.zip")
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [pool.submit(execute, path) for path in paths]
        for job in concurrent.futures.as_completed(jobs):
            path, notebook, found = job.result()
            name = f"{path.parent.name}/{path.name}"
            # closed each time: whole whenever this part is stopped
            with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as file:
                file.writestr(name, nbformat.writes(notebook))
            findings.keep(name, found)


def execute(path: Path):
    """Run one notebook to its end, whatever fails; what was said by which cell."""
    notebook = nbformat.read(path, as_version=4)
    before = {cell.id: answer_of(cell.get("outputs", [])) for cell in notebook.cells}
    for cell in notebook.cells:
        cell.setdefault("metadata", {}).setdefault("tags", [])
    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook,
        timeout=_CELL,
        allow_errors=True,
        resources=place,
        kernel_name="python3",
    )
    start, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as folder:
        places = {"COURSE_LIB_PROGRESS": f"{folder}/progress", "OMP_NUM_THREADS": "1"}
        places |= {"COURSE_LIB_CACHE": f"{folder}/cache"}
        try:
            client.execute(env=os.environ | places)
        except CellExecutionError as error:
            found["stopped"] = str(error)[-1500:]
        except Exception as error:
            found["stopped"] = f"{type(error).__name__}: {error}"[-1500:]
    found["seconds"] = round(time.monotonic() - start, 1)
    found["errors"], found["answers"] = {}, {}
    for number, cell in enumerate(notebook.cells):
        outputs = cell.get("outputs", [])
        for output in outputs:
            if output.output_type == "error":
                expected = "raises-exception" in cell.metadata.get("tags", [])
                name = f"[{number}] expected" if expected else f"[{number}]"
                found["errors"][name] = f"{output.ename}: {output.evalue}"[:1500]
        if (now := answer_of(outputs)) != before[cell.id]:
            found["answers"][f"[{number}]"] = [before[cell.id], now]
    return path, notebook, found


if __name__ == "__main__":
    main(sys.argv[1])
