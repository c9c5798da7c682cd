"""Files that are there whole, or as they were before."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or as it was before; make its folder.

    Errors: `OSError`.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "xb") as file:
            file.write(data)
            if path.exists():  # somebody's words: they outlive a power cut
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
