"""What a JupyterLab of these tests reads: its kernels get ports of `ports`, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import ports

ports.for_kernels().start()
# of several files of settings Jupyter reads the one that its command names: this one
load_subconfig(  # noqa: F821  # Jupyter runs this file, and has it
    str(
        Path(__file__).parents[1]
        / "course_lib/workspace/jupyter/jupyter_server_config.py"
    )
)
