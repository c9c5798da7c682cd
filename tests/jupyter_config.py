"""What a JupyterLab of these tests reads: its kernels get ports of `ports`, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import ports

ports.for_kernels().start()
